// Package version says which Heartwood this is.
package version

import "runtime/debug"

// Set by the linker: -X heartwood.dev/heartwood/internal/version.version=v0.1.0, and commit
// likewise.
var (
	version = "dev"
	commit  = ""
)

// Version is the release, or "dev".
func Version() string { return version }

// Commit is the revision the binary was built from, as far as it is known.
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
