package scrub

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

const (
	// settled is the minimum age at which a modification time identifies the content of a file. Before
	// that, another write may get the same time, because the clocks of file systems are coarse.
	settled = 2 * time.Second
	// smallMax is the size of the largest file that is compared with its digest.
	smallMax = 64 << 20
)

// digest represents the content of a small file when this process last read it. Most small files
// are text without a checksum, so a file may still be well-formed after a bit flip. A write changes
// the modification time; a bit flip does not.
type digest struct {
	modified time.Time
	size     int64
	sum      uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// knownContent returns the content that the owner of a file has written to the file or read from
// it; ok is false if the owner does not know it.
type knownContent func(name string) (content []byte, ok bool)

// nothingKnown is the knownContent of a directory without an owner.
func nothingKnown(string) ([]byte, bool) { return nil, false }

// compareSmallFiles compares the small files in a directory with their known content or, if the
// content is not known, with their digests. It records new digests for files that were written
// since the last comparison.
func (s *Scrubber) compareSmallFiles(dir string, known knownContent) (places []inspect.Damage,
	err error) {
	entries, err := s.opts.FS.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	present := map[string]bool{}
	var failed []error
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if entry.IsDir() || !hasDigest(entry.Name()) {
			continue
		}
		present[path] = true
		problem, err := s.compareSmallFile(path, known)
		if problem != "" {
			places = append(places, inspect.Damage{File: path, Problem: problem})
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	for path := range s.digests {
		if filepath.Dir(path) == dir && !present[path] {
			delete(s.digests, path)
		}
	}
	return places, errors.Join(failed...)
}

// hasDigest reports whether a file is compared with its digest. The exceptions are segment files,
// which are verified in another way, and files that exist only briefly.
func hasDigest(name string) bool {
	if name == datadir.LockFile || strings.HasSuffix(name, vfs.TemporarySuffix) {
		return false
	}
	_, rest, ok := segment.ParseName(name)
	return !ok || rest == ".snapshot"
}

// compareSmallFile returns a description of the damage if the content of a file differs from the
// known content or, although the file has not been written since, from its digest.
func (s *Scrubber) compareSmallFile(path string, known knownContent) (problem string, err error) {
	before, err := s.opts.FS.Stat(path)
	if err != nil || before.Size() > smallMax {
		return "", err
	}
	content, err := s.files.ReadFile(path)
	if err != nil {
		return "", err
	}
	// Ask the owner only after the file was read; its answer waits until a running write is complete.
	// So the content that was read is at most as new as the answer. If it is older, the file has
	// changed since it was read.
	want, isKnown := known(filepath.Base(path))
	after, err := s.opts.FS.Stat(path)
	if err != nil || !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() {
		return "", err // the file is being written
	}
	if isKnown && !bytes.Equal(content, want) {
		return "the content is not what the broker has written", nil
	}
	if s.digestDiffers(path, before, content) {
		return "the content has changed since the last check, and the file was not written", nil
	}
	return "", nil
}

// digestDiffers reports whether the content of a file differs from its digest, although the file
// has not been written since.
func (s *Scrubber) digestDiffers(path string, before fs.FileInfo, content []byte) bool {
	now := digest{before.ModTime(), before.Size(), crc32.Checksum(content, castagnoli)}
	known, exists := s.digests[path]
	switch {
	case exists && known.size == now.size && known.modified.Equal(now.modified):
		return known.sum != now.sum
	case time.Since(now.modified) >= s.settled:
		s.digests[path] = now
	default:
		delete(s.digests, path)
	}
	return false
}

// checkPartition checks a partition's files that belong to no segment.
func (s *Scrubber) checkPartition(log *logstore.Log) ([]inspect.Damage, error) {
	places, err := inspect.CheckPartition(s.files, log.Dir())
	changed, compareErr := s.compareSmallFiles(log.Dir(), logstore.SmallFiles{Log: log}.Known)
	places = append(places, changed...)
	if err := errors.Join(err, compareErr); err != nil {
		return places, err
	}
	differs := func(name string, file, memory any) {
		places = append(places, inspect.Damage{File: filepath.Join(log.Dir(), name),
			Problem: fmt.Sprintf("the file contains %v, and the log has %v", file, memory)})
	}
	// At this point the files are well-formed, or are already in the list of damage.
	topic, err := datadir.ReadTopicID(s.files, log.Dir())
	if err == nil && topic != (datadir.TopicID{}) && topic != log.TopicID() {
		differs(datadir.PartitionFile, topic, log.TopicID())
	}
	if _, missing := s.opts.FS.Stat(filepath.Join(log.Dir(), datadir.PolicyFile)); missing == nil {
		retain, err := datadir.ReadPolicy(s.files, log.Dir())
		if err == nil && retain != log.Retain() {
			differs(datadir.PolicyFile, retain, log.Retain())
		}
	}
	return places, nil
}

// checkDirectory checks the files of the data directory.
func (s *Scrubber) checkDirectory() ([]inspect.Damage, error) {
	places, err := inspect.CheckDataDirectory(s.files, s.opts.Dir)
	changed, compareErr := s.compareSmallFiles(s.opts.Dir,
		logstore.DirectoryFiles{Store: s.store}.Known)
	places = append(places, changed...)
	failed := []error{err, compareErr}
	for name, file := range s.opts.Files {
		if file.Check == nil {
			continue
		}
		path := filepath.Join(s.opts.Dir, name)
		content, err := s.files.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			failed = append(failed, err)
		default:
			if err := file.Check(content); err != nil {
				places = append(places, inspect.Damage{File: path, Problem: err.Error()})
			}
		}
	}
	return places, errors.Join(failed...)
}
