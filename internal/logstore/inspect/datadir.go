package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
)

// dataFiles lists the files in a data directory, besides recoveryFile, whose content is decoded.
// The cleaner's reports are JSON lines.
var dataFiles = []struct {
	name  string
	check func(content []byte) error
}{
	{checkpoint.LogStartFile, checkOffsets},
	{checkpoint.HighWatermarkFile, checkOffsets},
	{checkpoint.FirstDirtyFile, checkOffsets},
	{checkpoint.HorizonFile, checkOffsets},
	{checkpoint.AbortedFile, decodes(checkpoint.DecodeAborted)},
	{checkpoint.CleaningFile, decodes(checkpoint.DecodeCleaning)},
	{checkpoint.SegmentsFile, func(content []byte) error {
		_, _, err := checkpoint.DecodeClosedLogs(content)
		return err
	}},
	{"cleaner-history", checkLines},
	{"cleaner-history.1", checkLines},
	{"cleaner-totals", checkLines},
}

// checkDataDirectory checks the files in the data directory that contains a partition. It checks
// them once per data directory, before the directory's first partition.
func (v *verifier) checkDataDirectory(partition string) error {
	dir := filepath.Dir(filepath.Clean(partition))
	if v.dataDirectory == dir {
		return nil
	}
	v.dataDirectory = dir
	return v.checkDataFiles(dir)
}

// checkDataFiles checks the files of a data directory.
func (v *verifier) checkDataFiles(dir string) error {
	for _, f := range dataFiles {
		path := filepath.Join(dir, f.name)
		content, ok, err := v.readSmall(path)
		if err != nil {
			return err
		}
		// Apache Kafka creates its checkpoints empty.
		if ok && len(content) > 0 {
			if err := f.check(content); err != nil {
				v.find(path, 0, "%v", err)
			}
		}
	}
	return v.checkSmallFiles(datadir.CheckDirectory, dir)
}

func checkOffsets(content []byte) error {
	_, err := checkpoint.DecodeOffsets(content)
	return err
}

// decodes returns a check that fails if decode fails.
func decodes[T any](decode func([]byte) (T, error)) func([]byte) error {
	return func(content []byte) error {
		_, err := decode(content)
		return err
	}
}

// checkLines fails at the first line that is not JSON. A crash leaves an incomplete last line, and
// a power cut leaves lines of zeros. Both are accepted, because these files are never synced
// (docs/internals/format/cleaner-history.md).
func checkLines(content []byte) error {
	for number := 1; ; number++ {
		line, rest, complete := bytes.Cut(content, []byte{'\n'})
		if !complete {
			return nil
		}
		if len(bytes.Trim(line, "\x00")) > 0 && !json.Valid(bytes.TrimLeft(line, "\x00")) {
			return fmt.Errorf("line %d is not JSON", number)
		}
		content = rest
	}
}
