// Package terminal detects terminals for heartwood and kubectl heartwood.
package terminal

import "os"

// Is reports whether a writer or reader is a terminal.
func Is(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
