package replay

import "github.com/slidegate/slidegate/cmd/slidegate/internal/config"

// A format is how a log is written.
type format uint8

const (
	auto format = iota
	jsonl
	common
	combined
)

var formatNames = []string{"auto", "jsonl", "common", "combined"}

func (f format) String() string { return formatNames[f] }

func parseFormat(name string) (format, error) {
	for i, n := range formatNames {
		if n == name {
			return format(i), nil
		}
	}
	return auto, config.Usagef("--format %q: allowed is auto, jsonl, common or combined", name)
}

func (f format) parser(k *keys) parser {
	if f == jsonl {
		return &eventLog{k}
	}
	return newAccessLog(k)
}
