package loglevel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

const (
	// fileInterval is how often the file is read. Kubernetes updates the file of a mounted ConfigMap
	// about a minute after the ConfigMap changes.
	fileInterval = 5 * time.Second
	// fileBytesMax is the maximum number of bytes that are read. It is sufficient for the longest
	// level with white space around it.
	fileBytesMax = 64
)

// File sets a Level to the content of a file: debug, info, warn or error.
type File struct {
	Path   string
	Level  *Level
	Logger *slog.Logger

	reported string // text of the last error that was logged
}

// Load reads the file. After an error, the level does not change.
func (f *File) Load() error {
	file, err := os.Open(f.Path)
	if err != nil {
		return fmt.Errorf("read log level: %w", err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, fileBytesMax))
	if err != nil {
		return fmt.Errorf("read log level: %w", err)
	}
	var level slog.Level
	if err := level.UnmarshalText(bytes.TrimSpace(content)); err != nil {
		return fmt.Errorf("read log level from %s: %q is not debug, info, warn or error", f.Path,
			content)
	}
	if f.Level.Set(&level) {
		f.Logger.Info("log level changed", "to", level)
	}
	return nil
}

// Follow reads the file every fileInterval until ctx ends. It logs an error only when its text has
// changed.
func (f *File) Follow(ctx context.Context) {
	tick := time.NewTicker(fileInterval)
	defer tick.Stop()
	for {
		text := ""
		if err := f.Load(); err != nil {
			text = err.Error()
		}
		if text != "" && text != f.reported {
			f.Logger.Error("failed to load the log level; the previous one remains in use",
				"error", text)
		}
		f.reported = text
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
