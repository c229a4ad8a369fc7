package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Editors write a file in several steps, and some of the steps are renames. So a change is reported
// when no event has occurred for debounce. It is reported no later than debounceMax after its first
// event, because other files in the directory may change all the time.
const (
	debounce    = 200 * time.Millisecond
	debounceMax = 2 * time.Second
)

// watcher detects possible changes of manifests. It watches only directories. A watch on a file
// would miss events if an editor replaces the file by a rename.
type watcher struct {
	paths   []string
	notify  *fsnotify.Watcher
	watched map[string][]string // by directory: names whose events matter; anyName: all names
	logger  *slog.Logger
	changes chan struct{} // buffer of one, which merges several changes
	done    sync.WaitGroup
}

// anyName means all names in a directory.
const anyName = "*"

// configMapLink is the prefix of the symbolic link that a ConfigMap volume replaces to change all
// its files at once.
const configMapLink = "..data"

// watch starts a watcher. The caller must call Close.
func watch(paths []string, logger *slog.Logger) (*watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch manifests: %w", err)
	}
	w := &watcher{paths: paths, notify: notify, logger: logger, changes: make(chan struct{}, 1)}
	w.follow()
	w.done.Go(w.run)
	return w, nil
}

// Close stops the watcher's goroutine and waits until it has ended.
func (w *watcher) Close() {
	_ = w.notify.Close()
	w.done.Wait()
}

// run collects events and reports changes. It returns when Close has closed notify's channels.
func (w *watcher) run() {
	debounceTimer, maxTimer := time.NewTimer(0), time.NewTimer(0)
	debounceTimer.Stop()
	maxTimer.Stop()
	pending := false
	for {
		select {
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			if !w.isRelevant(event) {
				continue
			}
			debounceTimer.Reset(debounce)
			if !pending {
				maxTimer.Reset(debounceMax)
			}
			pending = true
			continue
		case err, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			// Events may have been lost, so assume a change.
			w.logger.Warn("failed to watch manifests; reading all of them again", "error", err)
		case <-debounceTimer.C:
		case <-maxTimer.C:
		}
		pending = false
		debounceTimer.Stop()
		maxTimer.Stop()
		w.follow() // symbolic links and directories may have been replaced
		select {
		case w.changes <- struct{}{}:
		default:
		}
	}
}

// isRelevant reports whether an event may concern a manifest.
func (w *watcher) isRelevant(event fsnotify.Event) bool {
	if event.Op == fsnotify.Chmod {
		return false
	}
	name := filepath.Base(event.Name)
	for _, pattern := range w.watched[filepath.Dir(event.Name)] {
		if pattern == anyName || pattern == name || strings.HasPrefix(name, configMapLink) {
			return true
		}
	}
	return false
}

// follow updates the set of watched directories. Symbolic links and directories may have changed.
func (w *watcher) follow() {
	directories := map[string][]string{}
	for _, path := range w.paths {
		addDirectories(directories, path)
	}
	for directory := range directories {
		// Add has no effect on a directory that is watched already. A directory that does not exist
		// yet causes an event in its parent when it is created.
		if err := w.notify.Add(directory); err != nil && !errors.Is(err, fs.ErrNotExist) &&
			!errors.Is(err, fsnotify.ErrClosed) {
			w.logger.Warn("failed to watch directory of manifests", "directory", directory, "error",
				err)
		}
	}
	for directory := range maps.Keys(w.watched) {
		if _, still := directories[directory]; !still {
			_ = w.notify.Remove(directory) // fails if the directory no longer exists
		}
	}
	w.watched = directories
}

// addDirectories adds the directories to watch for a path. These are the parent directory, and the
// path itself if it is a directory. It also adds the directories of symbolic links' targets.
func addDirectories(directories map[string][]string, path string) {
	add := func(path string) {
		path = filepath.Clean(path)
		parent := filepath.Dir(path)
		directories[parent] = append(directories[parent], filepath.Base(path))
		if isDirectory(path) {
			directories[path] = append(directories[path], anyName)
		}
	}
	add(path)
	if target, err := filepath.EvalSymlinks(path); err == nil && target != filepath.Clean(path) {
		add(target)
	}
	entries, _ := os.ReadDir(path) // a file or a missing path has no entries
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink == 0 {
			continue
		}
		target, err := filepath.EvalSymlinks(filepath.Join(path, entry.Name()))
		if err == nil && !isDirectory(target) {
			parent := filepath.Dir(target)
			directories[parent] = append(directories[parent], filepath.Base(target))
		}
	}
}
