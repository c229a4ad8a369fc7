package inspect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// sidecar holds a segment's key sidecar (docs/format/keys.md), if it has one, against its batches.
// That it holds the right keys is not checked: that would take the hashing of all of them again.
type sidecar struct {
	path    string
	find    func(path string, position int64, format string, args ...any)
	reader  *keys.Reader
	batches *keys.Batches // nil once there is no more to compare
}

// openSidecar opens the sidecar of a segment. One that cannot be used is a finding: it would be
// made anew.
func (v *verifier) openSidecar(f file, data vfs.File, dataBytes int64) (*sidecar, error) {
	s := &sidecar{path: f.with(segment.KeysExtension), find: v.find}
	if _, err := v.fsys.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	content, ok, err := v.readSmall(filepath.Join(f.dir, keys.SaltFile))
	if err != nil {
		return s, err
	}
	if !ok {
		v.find(s.path, 0, "there is no %s to read it with", keys.SaltFile)
		return s, nil
	}
	salt, err := keys.DecodeSalt(content)
	if err == nil {
		s.reader, err = keys.Open(v.fsys, s.path,
			keys.Expect{Identity: keys.Identity{Base: f.base, LogBytes: dataBytes},
				SaltID: salt.ID()})
	}
	if err == nil {
		err = s.reader.Verify(data)
	}
	if keys.Unusable(err) {
		v.find(s.path, 0, "%v", err)
		return s, nil
	}
	if err == nil {
		s.batches = s.reader.Batches()
	}
	return s, err
}

func (s *sidecar) close() error {
	if s.reader == nil {
		return nil
	}
	return s.reader.Close()
}

// pass compares a batch.
func (s *sidecar) pass(b batch) error {
	if s.batches == nil {
		return nil
	}
	if !s.batches.Next() {
		err := s.told(s.batches.Err(), "the batches end")
		s.batches = nil
		return err
	}
	told := s.batches.Batch()
	if told.Position != b.position || told.SizeBytes != b.size ||
		told.BaseOffset != b.BaseOffset() || told.LastOffset != b.LastOffset() ||
		told.CRC != b.CRC() || told.ProducerID != b.ProducerID() ||
		told.LeaderEpoch != b.LeaderEpoch() {
		s.find(
			s.path,
			0,
			"tells of a batch at position %d, offsets %d to %d, that is another in the log",
			told.Position,
			told.BaseOffset,
			told.LastOffset,
		)
		s.batches = nil // it is of other data: once is enough
	}
	return nil
}

// end reads the rest for its checksums.
func (s *sidecar) end() error {
	if s.batches == nil {
		return nil
	}
	if s.batches.Next() {
		s.find(s.path, 0, "tells of a batch behind the last one, at position %d",
			s.batches.Batch().Position)
	}
	err := s.told(s.batches.Err(), "the batches")
	records := s.reader.Records()
	for records.Next() {
	}
	err = errors.Join(err, s.told(records.Err(), "the records"))
	entries := s.reader.Entries(keys.AllHashes)
	for {
		if _, next := entries.NextPage(); next != nil {
			if errors.Is(next, io.EOF) {
				next = nil
			}
			return errors.Join(err, s.told(next, "the entries"))
		}
	}
}

// told makes a finding of an error that says that the sidecar is bad, and returns any other.
func (s *sidecar) told(err error, what string) error {
	if err != nil && !keys.Unusable(err) {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	if err != nil {
		s.find(s.path, 0, "%s: %v", what, err)
	}
	return nil
}
