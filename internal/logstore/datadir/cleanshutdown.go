package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"heartwood.dev/heartwood/internal/vfs"
)

// cleanShutdown is the content of the clean-shutdown marker, in Kafka's format
// (CleanShutdownFileHandler, KIP-966).
type cleanShutdown struct {
	Version     int   `json:"version"`
	BrokerEpoch int64 `json:"brokerEpoch"` // epoch of the stopped broker process; -1 if unknown
}

// WriteCleanShutdown writes the clean-shutdown marker, which states that everything in the
// directory is on disk. The marker is the last file that a shutdown writes.
func WriteCleanShutdown(fsys vfs.FS, dir string, epoch int64) error {
	content, err := json.Marshal(cleanShutdown{BrokerEpoch: epoch})
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, CleanShutdownFile), content)
}

// ReadCleanShutdown reports whether the marker exists, and returns the broker epoch in it. A
// malformed marker still shows that the shutdown was clean, but the broker epoch is then unknown.
func ReadCleanShutdown(fsys vfs.FS, dir string) (clean bool, epoch int64, err error) {
	content, err := fsys.ReadFile(filepath.Join(dir, CleanShutdownFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, -1, nil
	}
	if err != nil {
		return false, -1, fmt.Errorf("read %s: %w", CleanShutdownFile, err)
	}
	marker := cleanShutdown{BrokerEpoch: -1}
	if err := json.Unmarshal(content, &marker); err != nil || marker.Version != 0 {
		return true, -1, nil //nolint:nilerr // a malformed marker is treated as a clean shutdown
	}
	return true, max(marker.BrokerEpoch, -1), nil
}
