package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"heartwood.dev/heartwood/internal/vfs"
)

// check reads a file in a directory and fails with ErrMalformed if the content is malformed.
type check struct {
	name string
	read func(fsys vfs.FS, dir string) error
}

// partitionChecks are the checks of the small files in a partition's directory.
var partitionChecks = []check{
	{PartitionFile, func(fsys vfs.FS, dir string) error {
		_, err := ReadTopicID(fsys, dir)
		return err
	}},
	{PolicyFile, checkPolicy},
	{AssignmentFile, func(fsys vfs.FS, dir string) error {
		_, err := NewNotes(fsys, dir).ReplicaIncarnation()
		return err
	}},
	{CopySourceFile, func(fsys vfs.FS, dir string) error {
		_, err := NewNotes(fsys, dir).CopySource()
		return err
	}},
	{CopyGapFile, func(fsys vfs.FS, dir string) error {
		_, err := NewNotes(fsys, dir).CopyGap()
		return err
	}},
	{LossFile, func(fsys vfs.FS, dir string) error {
		_, err := readLoss(fsys, dir)
		return err
	}},
	{RetainedFile, func(fsys vfs.FS, dir string) error {
		_, _, err := ReadRetained(fsys, dir)
		return err
	}},
}

// directoryChecks are the checks of the small files in a data directory.
var directoryChecks = []check{
	{MetaFile, checkMeta},
	{FormatLevelFile, func(fsys vfs.FS, dir string) error {
		_, err := readFormatLevel(fsys, dir)
		return err
	}},
	{BootFile, checkBoot},
}

// CheckPartition calls found for each malformed small file in a partition's directory. It returns
// the errors of the files that could not be read.
func CheckPartition(fsys vfs.FS, dir string, found func(path string, err error)) error {
	return runChecks(partitionChecks, fsys, dir, found)
}

// CheckDirectory calls found for each malformed small file in a data directory, like
// CheckPartition.
func CheckDirectory(fsys vfs.FS, dir string, found func(path string, err error)) error {
	return runChecks(directoryChecks, fsys, dir, found)
}

func runChecks(checks []check, fsys vfs.FS, dir string, found func(string, error)) error {
	var failed []error
	for _, c := range checks {
		err := c.read(fsys, dir)
		if errors.Is(err, ErrMalformed) {
			found(filepath.Join(dir, c.name), err)
		} else {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// checkPolicy is stricter than ReadPolicy: ReadPolicy keeps the data in case of doubt.
func checkPolicy(fsys vfs.FS, dir string) error {
	values, err := readFields(fsys, filepath.Join(dir, PolicyFile))
	if values == nil || err != nil {
		return err
	}
	if text := values["retain"]; text != "true" && text != "false" {
		return fmt.Errorf("read %s: %w: retain %q", PolicyFile, ErrMalformed, text)
	}
	return nil
}

// checkMeta is like LoadMeta, but changes nothing.
func checkMeta(fsys vfs.FS, dir string) error {
	content, err := fsys.ReadFile(filepath.Join(dir, MetaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = checkSeal(content)
	}
	if err == nil {
		_, _, err = completeMeta(content, false)
	}
	if errors.Is(err, errFlipped) {
		err = fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", MetaFile, err)
	}
	return nil
}
