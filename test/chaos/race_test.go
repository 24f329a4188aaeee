//go:build race

package chaos

// grown is how much more memory a process may hold after a fault, in bytes. The race detector keeps what it has seen.
const grown = 256 << 20
