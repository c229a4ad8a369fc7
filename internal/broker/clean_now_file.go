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

// cleanNowContent is the content of the file.
type cleanNowContent struct {
	Version int            `json:"version"`
	Done    []cleanNowDone `json:"done"` // sorted by topic and partition
}

// cleanNowDone is the last value of the annotation for which a replica was cleaned completely.
type cleanNowDone struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topicId"` // distinguishes topics that had the same name
	Partition int32  `json:"partition"`
	Value     string `json:"value"`
	Finished  int64  `json:"finishedMs"` // Unix milliseconds
}

// readCleanNow returns the completed tasks from the file. An unreadable file is logged and ignored.
// The annotated replicas are then cleaned once more, which does no harm.
func readCleanNow(fsys vfs.FS, dir string,
	logger *slog.Logger) map[logstore.PartitionID]cleanNowTask {
	file := filepath.Join(dir, cleanNowFile)
	content, err := fsys.ReadFile(file)
	if err == nil {
		var tasks map[logstore.PartitionID]cleanNowTask
		if tasks, err = decodeCleanNow(content); err == nil {
			return tasks
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		logger.Warn(
			"failed to read completed clean-now requests; cleaning the annotated replicas again",
			"file", file, "error", err,
		)
	}
	return map[logstore.PartitionID]cleanNowTask{}
}

func decodeCleanNow(content []byte) (map[logstore.PartitionID]cleanNowTask, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var read cleanNowContent
	if err := decoder.Decode(&read); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("trailing data after the object")
	}
	if read.Version != cleanNowVersion {
		return nil, fmt.Errorf("version is %d, want %d", read.Version, cleanNowVersion)
	}
	tasks := map[logstore.PartitionID]cleanNowTask{}
	for _, done := range read.Done {
		topic, err := metadata.ParseID(done.TopicID)
		if err != nil {
			return nil, fmt.Errorf("topicId of %s: %w", done.Topic, err)
		}
		if done.Partition < 0 || done.Value == "" {
			return nil, fmt.Errorf("%s-%d has the value %q", done.Topic, done.Partition, done.Value)
		}
		// The target is set by the first image.
		tasks[logstore.PartitionID{Topic: done.Topic, Index: done.Partition}] = cleanNowTask{
			topic: topic, state: report.CleanNowDone, done: done.Value,
			finished: time.UnixMilli(done.Finished),
		}
	}
	return tasks, nil
}

func encodeCleanNow(tasks map[logstore.PartitionID]cleanNowTask) ([]byte, error) {
	content := cleanNowContent{Version: cleanNowVersion, Done: []cleanNowDone{}}
	for id, w := range tasks {
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

// save writes the file if tasks were completed since the last write. It reports whether the file is
// up to date.
func (c *cleanNow) save() bool {
	c.mu.Lock()
	if !c.mu.unsaved {
		c.mu.Unlock()
		return true
	}
	tasks := maps.Clone(c.mu.tasks)
	c.mu.unsaved = false // further tasks may complete during the write
	c.mu.Unlock()
	content, err := encodeCleanNow(tasks)
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
		c.logger.Warn("failed to write completed clean-now requests", "error", err)
	case ends:
		c.logger.Info("writes of the file of completed clean-now requests succeed again", "failed", failed)
	}
	return err == nil
}
