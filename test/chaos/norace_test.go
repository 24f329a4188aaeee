//go:build !race

package chaos

// grown is how much more memory a process may hold after a fault, in bytes.
const grown = 64 << 20
