package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
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

// token is what RFC 6750 has as a bearer token, and long enough not to be guessed.
var token = regexp.MustCompile(`^[A-Za-z0-9._~+/-]{16,}=*$`)

// ReadToken takes a bearer token from where it is, which may be one place only: the file that a flag names, or a
// variable. It is empty where it is in neither.
func ReadToken(flag, file, variable string) (string, error) {
	found, place := os.Getenv(variable), "$"+variable
	if file != "" {
		if found != "" {
			return "", Usagef("--%s and %s: a token is given twice, and one is enough", flag, place)
		}
		var err error
		if found, err = ReadSecret(file, "token"); err != nil {
			return "", Usagef("--%s: %w", flag, err)
		}
		place = "--" + flag
	}
	if found != "" && !token.MatchString(found) {
		return "", Usagef("%s: allowed are 16 or more letters, digits and -._~+/, such as openssl rand -hex 32 prints", place)
	}
	return found, nil
}
