package console

import "runtime/debug"

// Version is set by the release build, with -ldflags "-X …/internal/console.Version=v1.2.3"; otherwise
// the version is what the build knows of itself.
var Version = ""

func version() string {
	info, ok := debug.ReadBuildInfo()
	switch {
	case Version != "":
		return Version
	case !ok || info.Main.Version == "":
		return "(devel)"
	case info.Main.Version != "(devel)":
		return info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "(devel) " + s.Value[:min(12, len(s.Value))]
		}
	}
	return "(devel)"
}
