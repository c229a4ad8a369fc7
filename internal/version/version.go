// Package version returns the release and the revision of this binary.
package version

import "runtime/debug"

// Set by the linker, such as -X heartwood.dev/heartwood/internal/version.version=v0.1.0.
var (
	version = "dev"
	commit  = ""
)

// Version returns the release, or "dev".
func Version() string { return version }

// Commit returns the revision that the binary was built from, or "unknown".
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
