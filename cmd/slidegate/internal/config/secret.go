package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// longestSecret is in bytes: what is longer is another file.
const longestSecret = 4096

// ReadSecret reads a file that holds what, such as a password, on its one line. The errors name the file and nothing
// that is in it.
func ReadSecret(name, what string) (string, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no file %s", name)
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return "", fmt.Errorf("%s cannot be read: %w", name, path.Err)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestSecret+2))
	if errors.As(err, &path) {
		err = path.Err
	}
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %w", name, err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	switch {
	case secret == "":
		return "", fmt.Errorf("%s is empty", name)
	case len(secret) > longestSecret || strings.ContainsAny(secret, "\r\n\x00"):
		return "", fmt.Errorf("%s is no %s: one line of up to %d bytes is", name, what, longestSecret)
	}
	return secret, nil
}
