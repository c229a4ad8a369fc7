package loglevel

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/test/kit/output"
)

func TestLevelChangesWhileALoggerIsInUse(t *testing.T) {
	var out bytes.Buffer
	level := New(slog.LevelInfo)
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
	debug := slog.LevelDebug
	for _, step := range []struct {
		set     *slog.Level
		changed bool
		logs    bool
	}{{nil, false, false}, {&debug, true, true}, {&debug, false, true}, {nil, true, false}} {
		if changed := level.Set(step.set); changed != step.changed {
			t.Errorf("set %v: changed %t, want %t", step.set, changed, step.changed)
		}
		out.Reset()
		logger.Debug("message")
		if logs := out.Len() > 0; logs != step.logs {
			t.Errorf("set %v: the message is logged: %t, want %t", step.set, logs, step.logs)
		}
	}
}

// TestFile checks that a missing or invalid file does not change the level, and that the error is
// logged once.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "level")
	if err := os.WriteFile(path, []byte("info"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out output.Buffer
		f := &File{Path: path, Level: New(slog.LevelInfo),
			Logger: slog.New(slog.NewTextHandler(&out, nil))}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.Follow(ctx) }()
		synctest.Wait()
		for _, step := range []struct {
			content string // "": the file is removed
			want    slog.Level
			logs    string
		}{
			{"", slog.LevelInfo, "no such file"},
			{"debug\n", slog.LevelDebug, "log level changed"},
			{"debug", slog.LevelDebug, ""},
			{"loud", slog.LevelDebug, "is not debug, info, warn or error"},
			{" ERROR ", slog.LevelError, "log level changed"},
			{strings.Repeat(" ", fileBytesMax) + "info", slog.LevelError, "is not debug"},
			{"", slog.LevelError, "no such file"},
			{"warn", slog.LevelWarn, "log level changed"},
		} {
			if step.content == "" {
				_ = os.Remove(path)
			} else if err := os.WriteFile(path, []byte(step.content), 0o600); err != nil {
				t.Fatal(err)
			}
			out.Reset()
			time.Sleep(2 * fileInterval)
			synctest.Wait()
			if got := f.Level.Level(); got != step.want {
				t.Errorf("%q: level %v, want %v", step.content, got, step.want)
			}
			if n := strings.Count(out.String(), "\n"); n > 1 || (n == 1) != (step.logs != "") ||
				!strings.Contains(out.String(), step.logs) {
				t.Errorf("%q: logged %q, want one line with %q", step.content, out.String(), step.logs)
			}
		}
		stop()
		<-done
	})
}
