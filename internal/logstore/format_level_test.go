package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/version"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestFormatLevelOfADirectory checks that a store opens directories whose format level it supports,
// and changes no file of other directories.
func TestFormatLevelOfADirectory(t *testing.T) {
	for content, want := range map[string]string{
		"1\n": "", "2\n": "it supports levels up to 1", "": "want one line", "1": "want one line",
		"0\n": "want one line", "01\n": "want one line", "-1\n": "want one line",
		"9999999999\n": "want one line", "1\n1\n": "want one line",
	} {
		mem := vfs.NewMem()
		store := openStore(t, mem)
		createLog(t, store, settings(nil))
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileAtomic(mem, filepath.Join(dataDir, datadir.FormatLevelFile),
			[]byte(content)); err != nil {
			t.Fatal(err)
		}
		trace := vfs.NewTrace(mem, dataDir)
		reopened, err := Open(Options{FS: trace, Dir: dataDir, Logger: quiet()})
		if want == "" {
			if err != nil || reopened.FormatLevel() != 1 {
				t.Errorf("%q: %v", content, err)
				continue
			}
			_ = reopened.Close()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) ||
			errors.Is(err, ErrFormatLevel) != (content == "2\n") {
			t.Errorf("%q: error %v, want %q", content, err, want)
		}
		for _, line := range strings.Split(strings.TrimSpace(trace.Take()), "\n") {
			if line != "" && !strings.Contains(line, datadir.LockFile) {
				t.Errorf("%q: the store has changed a file: %s", content, line)
			}
		}
	}
}

// TestFormatLevelRises checks that a raised level is durable, and that unknown or lower levels
// change nothing.
func TestFormatLevelRises(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	if err := store.RaiseFormatLevel(version.FormatLevel() + 1); !errors.Is(err, ErrFormatLevel) {
		t.Errorf("error %v", err)
	}
	for _, level := range []int32{0, version.FormatLevelFirst} {
		if err := store.RaiseFormatLevel(level); err != nil || store.FormatLevel() != 1 {
			t.Errorf("level %d: %v, %d", level, err, store.FormatLevel())
		}
	}
	if _, err := mem.ReadFile(filepath.Join(dataDir, datadir.FormatLevelFile)); err == nil {
		t.Error("level 1 has a file")
	}
}

// TestOpenDirectoriesOfEarlierVersions checks that this version opens the data directories of all
// format levels up to its own without recovery, and finds their records and no damage.
func TestOpenDirectoriesOfEarlierVersions(t *testing.T) {
	for level := int32(version.FormatLevelFirst); level <= version.FormatLevel(); level++ {
		mem := kafkaMem(t, fmt.Sprintf("../level-%d", level))
		var out bytes.Buffer
		problems, err := inspect.Verify(mem, []string{dataDir}, inspect.VerifyOptions{}, &out)
		if err != nil || problems > 0 {
			t.Errorf("level %d: verify: %v\n%s", level, err, out.String())
		}
		store := openStore(t, mem)
		if offline := store.Offline(); len(offline) > 0 {
			t.Fatalf("level %d: offline: %v", level, offline)
		}
		for topic, want := range map[string]struct {
			end     int64
			records int
		}{"events": {200, 200}, "tickets": {300, 220}} {
			log := store.Log(PartitionID{Topic: topic})
			log.AdvanceHighWatermark(log.LogEnd())
			lines := recordsOf(t, log, log.LogEnd(), false)
			if log.LogEnd() != want.end || len(lines) != want.records {
				t.Errorf("level %d: %s ends at %d and has %d records", level, topic, log.LogEnd(),
					len(lines))
			}
		}
	}
}
