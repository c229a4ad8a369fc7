package dev

import (
	"context"
	"io"
	"log/slog"
)

// Options of a development cluster, as the flags of `heartwood dev` give them.
type Options struct {
	Manifests []string // files and folders
	Brokers   int      // 0: what the LogCluster says, or 1 without one
	Listen    string   // host:port of broker 0; broker i listens on port+i
	HTTP      string   // host:port of metrics, health and API
	DataDir   string
	Out       io.Writer // the lines for people: one a topic, then the ready line
	Logger    *slog.Logger
}

// Run is a whole cluster in one process, until ctx ends. Bad options and manifests come back as an error that wraps ErrUsage.
func Run(ctx context.Context, opts Options) error { panic("unwritten") }
