package scrub

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// attemptsMax is the maximum number of checks of a segment that is replaced during each check. A
// replacement has just been written, and the next round checks it.
const attemptsMax = 3

// check checks a target, and returns the damage that two checks have found. It fails if it could
// not check the target. A target that no longer exists has no damage.
func (s *Scrubber) check(t Target) ([]inspect.Damage, error) {
	if t == dataDirectory {
		return twice(s.checkDirectory, func() bool { return true })
	}
	if t.Retained != "" {
		return s.checkRetained(t)
	}
	log := s.store.Log(t.id())
	if log == nil {
		return nil, nil
	}
	if t.Base < 0 {
		return twice(func() ([]inspect.Damage, error) {
			return s.checkPartition(log)
		}, func() bool { return log.Stats().Segments > 0 })
	}
	for range attemptsMax {
		sealed, exists := atRest(log, t.Base)
		if !exists {
			return nil, nil
		}
		replaced := false
		places, err := twice(func() ([]inspect.Damage, error) {
			return s.checkSegment(log.Dir(), t.Base)
		}, func() bool {
			replaced = !log.StillAtRest(sealed)
			return !replaced
		})
		if !replaced {
			return places, err
		}
	}
	return nil, nil
}

// twice returns the damage found by check, if a second call of check also finds damage. After both
// calls, unchanged must report that the files are still the files to be checked.
func twice(check func() ([]inspect.Damage, error), unchanged func() bool) ([]inspect.Damage,
	error) {
	for again := false; ; again = true {
		places, err := damageOf(check())
		switch {
		case stopped(err):
			return nil, err
		case len(places) == 0 && err == nil:
			return nil, nil
		case !unchanged():
			return nil, nil
		case again:
			return places, err
		}
	}
}

// stopped reports whether a check ended because of the shutdown or because the scrub is off.
func stopped(err error) bool {
	return errors.Is(err, ErrOff) || errors.Is(err, context.Canceled)
}

// damageOf adds the disk's read errors to the places that a check has found. Other errors, such as
// a lack of file descriptors, are not damage and are returned.
func damageOf(places []inspect.Damage, err error) ([]inspect.Damage, error) {
	var failed *readError
	switch {
	case stopped(err):
		return nil, err
	case errors.As(err, &failed):
		return append(places, inspect.Damage{File: failed.file, Position: failed.position,
			Problem: failed.cause.Error()}), nil
	}
	return places, err
}

// checkSegment checks a segment. A missing data file is damage.
func (s *Scrubber) checkSegment(dir string, base int64) ([]inspect.Damage, error) {
	places, err := inspect.CheckSegment(s.files, dir, base)
	if errors.Is(err, fs.ErrNotExist) {
		name := filepath.Join(dir, segment.Name(base, segment.LogExtension, ""))
		if _, missing := s.opts.FS.Stat(name); errors.Is(missing, fs.ErrNotExist) {
			return append(places, inspect.Damage{File: name, Problem: "the file is missing"}), nil
		}
		return places, nil // a derived file was removed after it was found
	}
	return places, err
}

// atRest returns the segment at rest with the given base offset.
func atRest(log *logstore.Log, base int64) (logstore.AtRest, bool) {
	for _, sealed := range log.AtRest() {
		if sealed.Base == base {
			return sealed, true
		}
	}
	return logstore.AtRest{}, false
}

// sealed returns the sealed segment that a target names.
func (s *Scrubber) sealed(t Target) (logstore.AtRest, bool) {
	log := s.store.Log(t.id())
	if log == nil || t.Base < 0 || t.Retained != "" {
		return logstore.AtRest{}, false
	}
	return atRest(log, t.Base)
}

// ofRecords reports whether a place is in a data file, which means that records are damaged. All
// other files of a segment can be derived from its data file.
func ofRecords(places []inspect.Damage) bool {
	for _, p := range places {
		if strings.HasSuffix(p.File, segment.LogExtension) {
			return true
		}
	}
	return false
}
