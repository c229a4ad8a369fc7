package version

import "strconv"

// formatLevel is the highest format level that this binary supports; see FormatLevel. It is a
// variable so that tests can link binaries with another level: -X
// heartwood.dev/heartwood/internal/version.formatLevel=2.
var formatLevel = "1"

// FormatLevelFirst is the format level of the first release, and of directories and clusters that
// do not name a level.
const FormatLevelFirst = 1

// FormatLevel returns the highest format level that this binary supports. If earlier versions
// cannot read a changed format of files or of requests between brokers, the change needs the next
// level (docs/internals/format/format-level.md).
func FormatLevel() int32 {
	level, err := strconv.ParseInt(formatLevel, 10, 32)
	if err != nil || level < FormatLevelFirst {
		panic("invalid format level of the binary: " + formatLevel)
	}
	return int32(level)
}
