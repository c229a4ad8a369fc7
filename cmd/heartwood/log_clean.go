package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/vfs"
)

// cleanFlags is what the command line of log clean says.
type cleanFlags struct {
	cleaner.OfflineOptions
	memory, ioRate, segment float64
	dirty, garbage          float64 // shares
	now                     string
	at                      time.Time // the value of now; zero if it is not given
	asJSON                  bool
}

// cleanReport is what log clean did, over all directories. Its names are fixed.
type cleanReport struct {
	DryRun bool `json:"dry_run"`
	Passes int  `json:"passes"`
	// below the active one, before the first pass
	SegmentsTotal       int     `json:"segments_total"`
	SegmentsRewritten   int     `json:"segments_rewritten"`
	SegmentsUntouched   int     `json:"segments_untouched"`
	SidecarBytesRead    int64   `json:"sidecar_bytes_read"`
	SidecarBytesWritten int64   `json:"sidecar_bytes_written"`
	LogBytesRead        int64   `json:"log_bytes_read"`
	LogBytesWritten     int64   `json:"log_bytes_written"`
	BytesReclaimed      int64   `json:"bytes_reclaimed"`
	RecordsRead         int64   `json:"records_read"`
	RecordsRemoved      int64   `json:"records_removed"`
	TombstonesRemoved   int64   `json:"tombstones_removed"`
	MarkersRemoved      int64   `json:"markers_removed"`
	MemoryPeakBytes     int64   `json:"memory_peak_bytes"`
	CPUSeconds          float64 `json:"cpu_seconds"`
	WallSeconds         float64 `json:"wall_seconds"`
}

func logCleanCommand() *cobra.Command {
	f := cleanFlags{}
	cmd := &cobra.Command{
		Use:   "clean DIR...",
		Short: "Clean partitions' directories, without a broker",
		Long: `Clean partitions' directories (TOPIC-NUMBER), without a broker: ours, and those that Apache Kafka wrote.

Of each key the latest record stays. The last segment is active and not touched; all before it counts as replicated, unless the
checkpoints in the directory above know the partition and say less. They are kept up to date, so that a broker goes on where this ended.
A directory that a broker holds is refused. It may be stopped at any moment, also by kill -9, and run again.

Tombstones go like a broker's: the pass that finds one to be the last of its key starts its retention, a later one removes it. With
--tombstone-retention 0s both happen here.

--dry-run rewrites nothing and tells what would be freed, and what would be read and written at most. It makes the key sidecars that
are missing, as any pass does, and mends what a crash cut off, as any start does.`,
		Example: `  heartwood log clean --dry-run heartwood-data/broker-0/tickets-0
  heartwood log clean --memory 64Mi --io-rate 50Mi/s --json /var/lib/kafka/tickets-*`,
		Args: someArgs,
	}
	flags := cmd.Flags()
	flags.Var(quantity(&f.memory, sizeKind, "128Mi"), "memory", "of tables and bitmaps, at most")
	flags.IntVar(&f.Workers, "workers", 1, "slices of the keys worked on at once")
	flags.Var(percentFlag{&f.dirty}, "min-dirty-percent",
		"clean only above this dirty ratio; 0: in any case")
	flags.Var(percentFlag{&f.garbage}, "max-garbage-percent", "garbage that may stay, to save I/O")
	flags.DurationVar(&f.MinLag, "min-lag", 0,
		"leave segments alone that have records younger than this")
	flags.DurationVar(&f.TombstoneRetention, "tombstone-retention", 24*time.Hour,
		"how long a tombstone stays once it is the last record of its key")
	flags.StringVar(&f.now, "now", "",
		"`TIME` taken for now, RFC 3339 or milliseconds since 1970 (default: the clock's)")
	flags.Var(quantity(&f.ioRate, rateKind, "0"), "io-rate",
		"bytes read and written a second; 0: no limit")
	flags.Var(quantity(&f.segment, sizeKind, "0"), "segment-size",
		"of new segments; 0: as the largest there is")
	flags.BoolVar(&f.DryRun, "dry-run", false, "tell what a clean would do")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, dirs []string) error {
		if err := f.settle(); err != nil {
			return misused(cmd, err)
		}
		logger := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(),
			&slog.HandlerOptions{Level: slog.LevelWarn}))
		report, err := cleanAll(cmd.Context(), dirs, f, logger)
		if printed := report.print(cmd.OutOrStdout(), f.asJSON); err == nil {
			err = printed
		}
		return err
	}
	return cmd
}

// settle checks what flags say together, and puts it into OfflineOptions.
func (f *cleanFlags) settle() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(f.memory >= 1<<20 && f.memory <= 1<<46, "invalid argument for --memory: give 1Mi or more")
	check(f.Workers >= 1 && f.Workers <= 1024, "invalid argument %d for --workers: give 1 to 1024",
		f.Workers)
	check(f.garbage < 1, "invalid argument for --max-garbage-percent: give 0 to 99")
	check(f.MinLag >= 0, "invalid argument %s for --min-lag: it cannot be negative", f.MinLag)
	check(f.TombstoneRetention >= 0,
		"invalid argument %s for --tombstone-retention: it cannot be negative",
		f.TombstoneRetention)
	check(f.ioRate == 0 || f.ioRate >= 1024 && f.ioRate < 1<<60,
		"invalid argument for --io-rate: give at least 1Ki a second, or 0")
	check(f.segment == 0 || f.segment >= 1024 && f.segment < 1<<31,
		"invalid argument for --segment-size: give 1Ki to 2Gi-1")
	if f.now != "" {
		now, err := parseTime(f.now)
		check(
			err == nil,
			"invalid argument %q for --now: give a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970",
			f.now,
		)
		f.at = now
	}
	f.MemoryBytes, f.IOBytesRate, f.SegmentBytes = int64(f.memory), int64(f.ioRate),
		int64(f.segment)
	// Rounded up: "above 0.5 %" must not become "in any case".
	f.MinDirtyPercent, f.MaxGarbagePercent = int(f.dirty*100+0.999), int(f.garbage*100)
	return errors.Join(wrong...)
}

// parseTime reads a time as a person or a program gives it.
func parseTime(text string) (time.Time, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	return time.Parse(time.RFC3339, text)
}

// cleanAll cleans one directory after the other. One that fails does not keep the others from their
// turn.
func cleanAll(ctx context.Context, dirs []string, f cleanFlags,
	logger *slog.Logger) (cleanReport, error) {
	began, cpu := time.Now(), cpuSeconds()
	report := cleanReport{DryRun: f.DryRun}
	var failed []error
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			failed = append(failed, fmt.Errorf("clean %s: %w", dir, err))
			break
		}
		cleaned, err := cleanOne(ctx, dir, f, logger)
		report.add(cleaned)
		failed = append(failed, err)
	}
	report.WallSeconds, report.CPUSeconds = time.Since(began).Seconds(), cpuSeconds()-cpu
	return report, errors.Join(failed...)
}

func cleanOne(ctx context.Context, dir string, f cleanFlags,
	logger *slog.Logger) (cleaned cleaner.OfflineResult, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return cleaned, err
	}
	o, err := logstore.OpenOffline(logstore.Options{FS: vfs.OS{}, Logger: logger}, dir, f.at)
	if errors.Is(err, vfs.ErrLocked) {
		return cleaned, fmt.Errorf(
			"%w: a broker is at work there: stop it, or let its own cleaner do this",
			err,
		)
	}
	if err != nil {
		return cleaned, err
	}
	cleaned, err = cleaner.CleanOffline(ctx, o, f.OfflineOptions)
	return cleaned, errors.Join(err, o.Close())
}

// cpuSeconds is what the process has used, user and system.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// add takes in one more directory.
func (r *cleanReport) add(c cleaner.OfflineResult) {
	r.Passes += c.Passes
	r.SegmentsTotal += c.SegmentsTotal
	r.SegmentsRewritten += c.SegmentsRewritten
	r.SegmentsUntouched += c.SegmentsUntouched
	r.SidecarBytesRead += c.SidecarReadBytes
	r.SidecarBytesWritten += c.SidecarWrittenBytes
	r.LogBytesRead += c.LogReadBytes
	r.LogBytesWritten += c.LogWrittenBytes
	r.BytesReclaimed += c.ReclaimedBytes
	r.RecordsRead += c.RecordsRead
	r.RecordsRemoved += c.RecordsRemoved
	r.TombstonesRemoved += c.TombstonesRemoved
	r.MarkersRemoved += c.MarkersRemoved
	r.MemoryPeakBytes = max(r.MemoryPeakBytes, c.MemoryPeakBytes)
}

// print writes the report.
func (r cleanReport) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	did := "cleaned"
	if r.DryRun {
		did = "would clean"
	}
	_, err := fmt.Fprintf(
		out,
		`%s: %d bytes freed, %d of %d records removed (%d tombstones), in %d passes
segments: %d rewritten, %d untouched
log: %d bytes read, %d written; sidecars: %d read, %d written
memory: %d bytes at most; processor: %.2f s; time: %.2f s
`,
		did,
		r.BytesReclaimed,
		r.RecordsRemoved,
		r.RecordsRead,
		r.TombstonesRemoved,
		r.Passes,
		r.SegmentsRewritten,
		r.SegmentsUntouched,
		r.LogBytesRead,
		r.LogBytesWritten,
		r.SidecarBytesRead,
		r.SidecarBytesWritten,
		r.MemoryPeakBytes,
		r.CPUSeconds,
		r.WallSeconds,
	)
	return err
}
