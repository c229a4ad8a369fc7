package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/vfs"
)

// clusterIDFile is the name of a file in the data directory; docs/internals/format/cluster-id.md
// describes its format.
const clusterIDFile = "cluster-id"

// clusterIDBytesMax is larger than any cluster id in use: generated ids have 22 characters, and a
// UUID as text has 36.
const clusterIDBytesMax = 64

// readClusterID returns the id of the cluster to which a data directory belongs, or "" if the
// directory does not contain the file. It fails if the file does not have the format of
// writeClusterID. It must not guess an id: with a wrong id, this broker would treat another
// cluster's logs as its own, and delete them because their topics do not exist in this cluster.
func readClusterID(fsys vfs.FS, dir string) (string, error) {
	file := filepath.Join(dir, clusterIDFile)
	content, err := fsys.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read cluster id: %w", err)
	}
	id, err := parseClusterID(content)
	if err != nil {
		return "", fmt.Errorf("read cluster id from %s: %w; stop the broker, and copy the file from "+
			"another broker of the cluster", file, err)
	}
	return id, nil
}

// clusterFile is the file cluster-id of a data directory.
type clusterFile struct {
	fsys vfs.FS
	dir  string

	mu sync.Mutex // held while the file is written
	id string     // content of the file; "" if the file does not exist
}

// openClusterFile reads the file.
func openClusterFile(fsys vfs.FS, dir string) (*clusterFile, error) {
	id, err := readClusterID(fsys, dir)
	return &clusterFile{fsys: fsys, dir: dir, id: id}, err
}

// set writes the file unless it contains this id.
func (f *clusterFile) set(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id == f.id {
		return nil
	}
	if err := writeClusterID(f.fsys, f.dir, id); err != nil {
		return err
	}
	f.id = id
	return nil
}

// rewrite writes the damaged file again.
func (f *clusterFile) rewrite() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.id == "" {
		return logstore.ErrNotInMemory
	}
	return writeClusterID(f.fsys, f.dir, f.id)
}

// check returns an error if content is not the expected content of the file.
func (f *clusterFile) check(content []byte) error {
	id, err := parseClusterID(content)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil && f.id != "" && id != f.id {
		return fmt.Errorf("the file contains %s, and the broker belongs to %s", id, f.id)
	}
	return err
}

// parseClusterID returns the cluster id in the file's content.
func parseClusterID(content []byte) (string, error) {
	id, ended := strings.CutSuffix(string(content), "\n")
	if !ended || !validClusterID(id) {
		return "", fmt.Errorf("want one line of 1 to %d printable characters", clusterIDBytesMax)
	}
	return id, nil
}

// writeClusterID replaces the file atomically: after a crash the file contains either the old id or
// the new id.
func writeClusterID(fsys vfs.FS, dir, id string) error {
	if !validClusterID(id) {
		return fmt.Errorf("write cluster id %.100q: want 1 to %d printable characters", id,
			clusterIDBytesMax)
	}
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, clusterIDFile),
		[]byte(id+"\n")); err != nil {
		return fmt.Errorf("write cluster id: %w", err)
	}
	return nil
}

// validClusterID reports whether the id is printable ASCII without spaces. Such an id fits on one
// line, and people can compare it.
func validClusterID(id string) bool {
	notPrintable := func(r rune) bool { return r <= ' ' || r > '~' }
	return id != "" && len(id) <= clusterIDBytesMax && !strings.ContainsFunc(id, notPrintable)
}
