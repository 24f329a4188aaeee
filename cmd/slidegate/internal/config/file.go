package config

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file of up to most bytes and of no more, so that a file that never ends fills no memory. The error
// does not name the file.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("it is too large: allowed is up to %d bytes", most)
	}
	return text, nil
}

// ReadFileAtOnce is ReadFile for a file that is read again and again: it waits for nobody. What is neither a file nor a
// directory is refused, since opening a named pipe lasts until somebody writes to it.
func ReadFileAtOnce(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, errors.New("it is no regular file, and only such a one can be read again")
	}
	return ReadFile(path, most)
}

func withoutPath(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
