package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/terminal"
)

// progressInterval is the interval at which the progress line is redrawn.
const progressInterval = 200 * time.Millisecond

// addQuiet adds the flag --quiet to a command that shows its progress.
func addQuiet(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("quiet", "q", false, "show no progress")
}

// showProgress draws a progress line on standard error until the returned function is called. This
// function removes the line and can be called again. The line shows how many of the total units are
// done; count counts these. With a total of -1, the line only shows that the command runs, and for
// how long. showProgress draws nothing if quiet is set or standard error is not a terminal.
func showProgress(cmd *cobra.Command, quiet bool, unit string, total int64,
	count *atomic.Int64) (end func()) {
	if quiet || !terminal.Is(cmd.ErrOrStderr()) {
		return func() {}
	}
	options := []progressbar.Option{progressbar.OptionSetWriter(cmd.ErrOrStderr()),
		progressbar.OptionSetDescription(cmd.Name()), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetWidth(20)}
	if unit != "" {
		options = append(options, progressbar.OptionShowCount(), progressbar.OptionShowIts(),
			progressbar.OptionSetItsString(unit))
	}
	bar := progressbar.NewOptions64(total, options...)
	ctx, stop := context.WithCancel(cmd.Context())
	var drawing sync.WaitGroup
	drawing.Go(func() { drawProgress(ctx, bar, count) })
	return sync.OnceFunc(func() {
		stop()
		drawing.Wait()
		_ = bar.Finish() // errors are ignored: the line is only informative
	})
}

// drawProgress draws the line until ctx ends.
func drawProgress(ctx context.Context, bar *progressbar.ProgressBar, count *atomic.Int64) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = bar.Set64(count.Load()) // errors are ignored, as for Finish
		}
	}
}
