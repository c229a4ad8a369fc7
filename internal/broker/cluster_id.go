package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"heartwood.dev/heartwood/internal/vfs"
)

// clusterIDFile is in the data directory; docs/format/cluster-id.md describes it.
const clusterIDFile = "cluster-id"

const clusterIDBytesMax = 64

// readClusterID returns the cluster that a data directory belongs to, "" if to none yet.
func readClusterID(fsys vfs.FS, dir string) (string, error) {
	file := filepath.Join(dir, clusterIDFile)
	content, err := fsys.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read cluster id: %w", err)
	}
	id, ended := strings.CutSuffix(string(content), "\n")
	if !ended || !validClusterID(id) {
		return "", fmt.Errorf("read cluster id from %s: want one line of 1 to %d printable characters", file, clusterIDBytesMax)
	}
	return id, nil
}

func writeClusterID(fsys vfs.FS, dir, id string) error {
	if !validClusterID(id) {
		return fmt.Errorf("write cluster id %.100q: want 1 to %d printable characters", id, clusterIDBytesMax)
	}
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, clusterIDFile), []byte(id+"\n")); err != nil {
		return fmt.Errorf("write cluster id: %w", err)
	}
	return nil
}

func validClusterID(id string) bool {
	notPrintable := func(r rune) bool { return r <= ' ' || r > '~' }
	return id != "" && len(id) <= clusterIDBytesMax && !strings.ContainsFunc(id, notPrintable)
}
