package controllers

import (
	"strings"
	"sync"
)

// recorder stores the controllers' log. A failing spec prints its own part of the log.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

// about returns the log lines that contain a namespace.
func (r *recorder) about(namespace string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found strings.Builder
	for _, line := range r.lines {
		if strings.Contains(line, namespace) {
			found.WriteString(line + "\n")
		}
	}
	return found.String()
}
