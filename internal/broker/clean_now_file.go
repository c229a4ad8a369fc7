package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// cleanNowFile is in the data directory; docs/format/clean-now.md describes it.
const cleanNowFile = "clean-now.json"

const cleanNowVersion = 1

// cleanNowContent is the file.
type cleanNowContent struct {
	Version int            `json:"version"`
	Done    []cleanNowDone `json:"done"` // sorted by topic and partition
}

// cleanNowDone is the last value of the annotation for which a replica was cleaned.
type cleanNowDone struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topicId"` // of another topic of the name nothing was done yet
	Partition int32  `json:"partition"`
	Value     string `json:"value"`
	Finished  int64  `json:"finishedMs"` // Unix milliseconds
}

// readCleanNow returns what was done. A file that cannot be read costs one more clean of what is
// annotated, and harms nothing: it is reported and forgotten.
func readCleanNow(fsys vfs.FS, dir string, logger *slog.Logger) map[logstore.PartitionID]wish {
	file := filepath.Join(dir, cleanNowFile)
	content, err := fsys.ReadFile(file)
	if err == nil {
		var wishes map[logstore.PartitionID]wish
		if wishes, err = decodeCleanNow(content); err == nil {
			return wishes
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("cleans asked for by annotation are forgotten", "file", file, "error", err)
	}
	return map[logstore.PartitionID]wish{}
}

func decodeCleanNow(content []byte) (map[logstore.PartitionID]wish, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var read cleanNowContent
	if err := decoder.Decode(&read); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	if read.Version != cleanNowVersion {
		return nil, fmt.Errorf("version is %d, want %d", read.Version, cleanNowVersion)
	}
	wishes := map[logstore.PartitionID]wish{}
	for _, done := range read.Done {
		topic, err := metadata.ParseID(done.TopicID)
		if err != nil {
			return nil, fmt.Errorf("topicId of %s: %w", done.Topic, err)
		}
		if done.Partition < 0 || done.Value == "" {
			return nil, fmt.Errorf("%s-%d has the value %q", done.Topic, done.Partition, done.Value)
		}
		// Not wanted: the first image says what is.
		wishes[logstore.PartitionID{Topic: done.Topic, Index: done.Partition}] = wish{
			topic: topic, state: report.CleanNowDone, done: done.Value,
			finished: time.UnixMilli(done.Finished),
		}
	}
	return wishes, nil
}

func encodeCleanNow(wishes map[logstore.PartitionID]wish) ([]byte, error) {
	content := cleanNowContent{Version: cleanNowVersion, Done: []cleanNowDone{}}
	for id, w := range wishes {
		if w.done != "" {
			content.Done = append(content.Done, cleanNowDone{
				Topic: id.Topic, TopicID: w.topic.String(), Partition: id.Index, Value: w.done,
				Finished: w.finished.UnixMilli(),
			})
		}
	}
	slices.SortFunc(content.Done, func(a, b cleanNowDone) int {
		if order := strings.Compare(a.Topic, b.Topic); order != 0 {
			return order
		}
		return int(a.Partition) - int(b.Partition)
	})
	encoded, err := json.MarshalIndent(content, "", "  ")
	return append(encoded, '\n'), err
}

// save writes the file if more is done than it says; false if it could not be written, and must be
// tried again.
func (c *cleanNow) save() bool {
	c.mu.Lock()
	if !c.mu.unsaved {
		c.mu.Unlock()
		return true
	}
	wishes := maps.Clone(c.mu.wishes)
	c.mu.unsaved = false // more may become done during the write
	c.mu.Unlock()
	content, err := encodeCleanNow(wishes)
	if err == nil {
		err = vfs.WriteFileAtomic(c.fs, filepath.Join(c.dir, cleanNowFile), content)
	}
	c.mu.Lock()
	begins, ends, failed := false, false, 0
	if err == nil {
		failed, ends = c.mu.saves.Succeed()
	} else {
		c.mu.unsaved = true
		begins = c.mu.saves.Fail(time.Now())
	}
	c.mu.Unlock()
	switch {
	case begins:
		c.logger.Warn("cannot remember that partitions were cleaned by annotation", "error", err)
	case ends:
		c.logger.Info("what was cleaned by annotation is remembered again", "failed", failed)
	}
	return err == nil
}
