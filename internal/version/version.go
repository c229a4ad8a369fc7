// Package version returns the release and the Git revision of this binary.
package version

import "runtime/debug"

// The linker sets these variables, for example with -X
// heartwood.dev/heartwood/internal/version.version=v0.1.0.
var (
	version = "dev"
	commit  = ""
)

// Version returns the release, or "dev" if the linker has not set it.
func Version() string { return version }

// Commit returns the Git revision from which the binary was built, or "unknown".
func Commit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return "unknown"
}
