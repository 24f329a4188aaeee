//go:build !race

package soak

// roomOfShort is what memory may grow by in a run of minutes, in bytes: it takes as long to settle.
const roomOfShort = 16 << 20
