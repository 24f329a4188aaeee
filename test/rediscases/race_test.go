//go:build race

package rediscases

// buildFlags are those of this test binary, so that what it builds has been compiled before.
var buildFlags = []string{"-race"}
