package loglevel

import (
	"log/slog"
	"sync/atomic"
)

// Level is a log level that can change. It implements slog.Leveler.
type Level struct {
	initial slog.Level
	current atomic.Int64
}

// New returns a Level with an initial value.
func New(initial slog.Level) *Level {
	l := &Level{initial: initial}
	l.current.Store(int64(initial))
	return l
}

// Level implements slog.Leveler.
func (l *Level) Level() slog.Level { return slog.Level(l.current.Load()) }

// Set sets the level. If level is nil, it sets the initial value. It reports whether the level has
// changed.
func (l *Level) Set(level *slog.Level) (changed bool) {
	next := l.initial
	if level != nil {
		next = *level
	}
	return l.current.Swap(int64(next)) != int64(next)
}
