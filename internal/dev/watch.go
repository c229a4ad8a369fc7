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

// Editors write a file in several steps, and some by rename; a change is told once nothing has
// happened for settle, but not later than settleMax after its first step, in case something writes
// beside the manifests all the time.
const (
	settle    = 200 * time.Millisecond
	settleMax = 2 * time.Second
)

// watcher tells when manifests may have changed. It watches folders only: a file that an editor
// replaces by rename is another file, and a watch of the first would see no more of it.
type watcher struct {
	paths   []string
	notify  *fsnotify.Watcher
	watched map[string][]string // by folder: which names in it count; see pattern
	logger  *slog.Logger
	changes chan struct{} // holds one: several changes before it is taken are one
	done    sync.WaitGroup
}

// pattern of all names.
const anyName = "*"

// configMapLink is what a ConfigMap's volume renames to change all its files at once.
const configMapLink = "..data"

// watch begins to watch; Close ends it.
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

// Close stops and joins the watcher's goroutine.
func (w *watcher) Close() {
	_ = w.notify.Close() // of no use any more, whatever it says
	w.done.Wait()
}

// run gathers events until they pause, then tells. It ends when Close closes the channels of
// notify.
func (w *watcher) run() {
	quiet, latest := time.NewTimer(0), time.NewTimer(0)
	quiet.Stop()
	latest.Stop()
	pending := false
	for {
		select {
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			if !w.counts(event) {
				continue
			}
			quiet.Reset(settle)
			if !pending {
				latest.Reset(settleMax)
			}
			pending = true
			continue
		case err, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			// Events were lost; that something changed is all we need to know.
			w.logger.Warn("watch of manifests was interrupted", "error", err)
		case <-quiet.C:
		case <-latest.C:
		}
		pending = false
		quiet.Stop()
		latest.Stop()
		w.follow() // links may lead elsewhere now, and a folder that came back is another folder
		select {
		case w.changes <- struct{}{}:
		default:
		}
	}
}

// counts tells whether an event may be about a manifest.
func (w *watcher) counts(event fsnotify.Event) bool {
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

// follow watches the folders that matter now.
func (w *watcher) follow() {
	folders := map[string][]string{}
	for _, path := range w.paths {
		addFolders(folders, path)
	}
	for folder := range folders {
		// Adding again what is watched does nothing; what is gone comes with its parent's event.
		if err := w.notify.Add(folder); err != nil && !errors.Is(err, fs.ErrNotExist) &&
			!errors.Is(err, fsnotify.ErrClosed) {
			w.logger.Warn("cannot watch folder of manifests", "folder", folder, "error", err)
		}
	}
	for folder := range maps.Keys(w.watched) {
		if _, still := folders[folder]; !still {
			_ = w.notify.Remove(folder) // fails when the folder is gone, which is why it is removed
		}
	}
	w.watched = folders
}

// addFolders notes a path's parent, for the path itself, and the folder it is, for all that is in
// it; and the same where it, or a file in it, leads to if it is a link.
func addFolders(folders map[string][]string, path string) {
	add := func(path string) {
		path = filepath.Clean(path)
		parent := filepath.Dir(path)
		folders[parent] = append(folders[parent], filepath.Base(path))
		if isFolder(path) {
			folders[path] = append(folders[path], anyName)
		}
	}
	add(path)
	if target, err := filepath.EvalSymlinks(path); err == nil && target != filepath.Clean(path) {
		add(target)
	}
	entries, _ := os.ReadDir(path) // of a file, or of what is gone: none
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink == 0 {
			continue
		}
		target, err := filepath.EvalSymlinks(filepath.Join(path, entry.Name()))
		if err == nil && !isFolder(target) {
			parent := filepath.Dir(target)
			folders[parent] = append(folders[parent], filepath.Base(target))
		}
	}
}
