package cleannow

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

// FileName is the name of the file in the data directory; docs/internals/format/clean-now.md
// describes its format.
const FileName = "clean-now.json"

const fileVersion = 1

// fileContent is the JSON content of the file.
type fileContent struct {
	Version int        `json:"version"`
	Done    []doneTask `json:"done"` // sorted by topic and partition
}

// doneTask is the last value of the annotation for which a replica was cleaned completely.
type doneTask struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topicId"` // distinguishes topics that had the same name
	Partition int32  `json:"partition"`
	Value     string `json:"value"`
	Finished  int64  `json:"finishedMs"` // Unix milliseconds
}

// readFile returns the completed tasks from the file. It logs and ignores an unreadable file. The
// annotated replicas are then cleaned once more, which is harmless.
func readFile(fsys vfs.FS, dir string,
	logger *slog.Logger) map[logstore.PartitionID]task {
	file := filepath.Join(dir, FileName)
	content, err := fsys.ReadFile(file)
	if err == nil {
		var tasks map[logstore.PartitionID]task
		if tasks, err = decode(content); err == nil {
			return tasks
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		logger.Warn(
			"failed to read completed clean-now requests; cleaning the annotated replicas again",
			"file", file, "error", err,
		)
	}
	return map[logstore.PartitionID]task{}
}

// Check returns an error if the content of the file is malformed.
func Check(content []byte) error {
	_, err := decode(content)
	return err
}

func decode(content []byte) (map[logstore.PartitionID]task, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var read fileContent
	if err := decoder.Decode(&read); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("trailing data after the object")
	}
	if read.Version != fileVersion {
		return nil, fmt.Errorf("version is %d, want %d", read.Version, fileVersion)
	}
	tasks := map[logstore.PartitionID]task{}
	for _, done := range read.Done {
		topic, err := metadata.ParseID(done.TopicID)
		if err != nil {
			return nil, fmt.Errorf("topicId of %s: %w", done.Topic, err)
		}
		if done.Partition < 0 || done.Value == "" {
			return nil, fmt.Errorf("%s-%d has the value %q", done.Topic, done.Partition, done.Value)
		}
		// The first metadata image sets the target.
		tasks[logstore.PartitionID{Topic: done.Topic, Index: done.Partition}] = task{
			topic: topic, state: report.CleanNowDone, done: done.Value,
			finished: time.UnixMilli(done.Finished),
		}
	}
	return tasks, nil
}

func encode(tasks map[logstore.PartitionID]task) ([]byte, error) {
	content := fileContent{Version: fileVersion, Done: []doneTask{}}
	for id, w := range tasks {
		if w.done != "" {
			content.Done = append(content.Done, doneTask{
				Topic: id.Topic, TopicID: w.topic.String(), Partition: id.Index, Value: w.done,
				Finished: w.finished.UnixMilli(),
			})
		}
	}
	slices.SortFunc(content.Done, func(a, b doneTask) int {
		if order := strings.Compare(a.Topic, b.Topic); order != 0 {
			return order
		}
		return int(a.Partition) - int(b.Partition)
	})
	encoded, err := json.MarshalIndent(content, "", "  ")
	return append(encoded, '\n'), err
}

// save writes the file if tasks have been completed since the last write. It reports whether the
// file is up to date.
func (c *Tasks) save() bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	if !c.mu.unsaved {
		c.mu.Unlock()
		return true
	}
	tasks := maps.Clone(c.mu.tasks)
	c.mu.unsaved = false // other tasks may be completed during the write
	c.mu.Unlock()
	content, err := encode(tasks)
	if err == nil {
		err = vfs.WriteFileAtomic(c.fs, filepath.Join(c.dir, FileName), content)
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

// errNotWritten is the error of Rewrite; save logs the cause.
var errNotWritten = errors.New("write completed clean-now requests: the write has failed")

// Rewrite replaces the damaged file with the tasks completed so far.
func (c *Tasks) Rewrite() error {
	c.mu.Lock()
	c.mu.unsaved = true
	c.mu.Unlock()
	if !c.save() {
		return errNotWritten
	}
	return nil
}
