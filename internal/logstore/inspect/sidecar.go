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

// sidecar compares a segment's key sidecar (docs/internals/format/keys.md) with the segment's
// batches. It does not check the keys, because this would require hashing all of them.
type sidecar struct {
	path    string
	find    func(path string, position int64, format string, args ...any)
	reader  *keys.Reader
	batches *keys.Batches // nil if no further batch has to be compared
}

// openSidecar opens a segment's key sidecar, if the segment has one. A damaged sidecar is a
// problem. A sidecar of other data or of another salt is a problem too, except in checks of files
// at rest, because the broker rebuilds it.
func (v *verifier) openSidecar(f file, data vfs.File, dataBytes int64) (*sidecar, error) {
	s := &sidecar{path: f.with(segment.KeysExtension), find: v.find}
	if _, err := v.fsys.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	content, ok, err := v.readSmall(filepath.Join(f.dir, keys.SaltFile))
	if err != nil {
		return s, err
	}
	if !ok && v.atRest {
		return s, nil // the broker will create another salt, and rebuild the sidecar
	}
	if !ok {
		v.find(s.path, 0, "the file cannot be checked, because %s is missing", keys.SaltFile)
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
	if v.atRest && errors.Is(err, keys.ErrStale) {
		return s, nil // the broker will rebuild a sidecar of other data or of another salt
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

// add compares a batch with the sidecar's next batch.
func (s *sidecar) add(b batch) error {
	if s.batches == nil {
		return nil
	}
	if !s.batches.Next() {
		err := s.report(s.batches.Err(), "batches end early")
		s.batches = nil
		return err
	}
	known := s.batches.Batch()
	if known.Position != b.position || known.SizeBytes != b.size ||
		known.BaseOffset != b.BaseOffset() || known.LastOffset != b.LastOffset() ||
		known.CRC != b.CRC() || known.ProducerID != b.ProducerID() ||
		known.LeaderEpoch != b.LeaderEpoch() {
		s.find(s.path, 0, "batch at position %d, offsets %d to %d, differs from the log",
			known.Position, known.BaseOffset, known.LastOffset)
		s.batches = nil // reports only one problem for a sidecar that describes other data
	}
	return nil
}

// end reads the remaining sections of the sidecar to verify their checksums.
func (s *sidecar) end() error {
	if s.batches == nil {
		return nil
	}
	if s.batches.Next() {
		s.find(s.path, 0, "batch at position %d is after the last batch of the log",
			s.batches.Batch().Position)
	}
	err := errors.Join(s.report(s.batches.Err(), "batches"),
		s.report(s.reader.VerifyIndexes(), "indexes"))
	records := s.reader.Records()
	for records.Next() {
	}
	err = errors.Join(err, s.report(records.Err(), "records"))
	entries := s.reader.Entries(keys.AllHashes)
	for {
		if _, next := entries.NextPage(); next != nil {
			if errors.Is(next, io.EOF) {
				next = nil
			}
			return errors.Join(err, s.report(next, "entries"))
		}
	}
}

// report reports a problem if err shows that the sidecar is invalid, and returns any other error.
func (s *sidecar) report(err error, section string) error {
	if err != nil && !keys.Unusable(err) {
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	if err != nil {
		s.find(s.path, 0, "%s: %v", section, err)
	}
	return nil
}
