package scrub

import (
	"errors"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// rewrite makes the owners of damaged files that belong to no segment rewrite these files, checks
// the files, and records the result. log is nil for the files of the data directory. A file that no
// owner can rewrite remains damaged; otherwise the target is checked again later.
func (s *Scrubber) rewrite(log *logstore.Log, t Target, places []inspect.Damage) {
	var written []string
	again := false
	for _, file := range damagedFiles(places) {
		err := s.rewriteFile(log, t, filepath.Base(file))
		if err == nil {
			written = append(written, file)
			continue
		}
		again = again || !errors.Is(err, logstore.ErrNotInMemory)
		s.opts.Logger.Warn("failed to repair a file at rest", "file", file, "error", err)
	}
	if len(written) > 0 && !s.mended(t, written) {
		again = true // also if the check has found files that exceed the maximum number of places
	}
	if again {
		s.recheckLater(t, replaceDelay)
	}
}

// rewriteFile makes the owner of a file rewrite it from the owner's state in memory.
func (s *Scrubber) rewriteFile(log *logstore.Log, t Target, name string) error {
	switch {
	case log != nil:
		return logstore.SmallFiles{Log: log}.Rewrite(name)
	case t != dataDirectory:
		return segmentlist.ErrClosed // the log was removed from the broker
	}
	if file, ok := s.opts.Files[name]; ok {
		return file.Rewrite()
	}
	return logstore.DirectoryFiles{Store: s.store}.Rewrite(name)
}
