//go:build race

package soak

// roomOfShort is what memory may grow by in a run of minutes, in bytes. The race detector keeps what it has seen.
const roomOfShort = 256 << 20
