package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/vfs"
)

// cleanFlags are the values of the flags of heartwood log clean.
type cleanFlags struct {
	cleaner.OfflineOptions
	memory, ioRate, segment float64
	dirty, garbage          float64 // ratios between 0 and 1
	now                     string
	moment                  time.Time // parsed value of now; zero if flag --now is not set
	asJSON                  bool
	done                    atomic.Int64 // number of cleaned directories
}

// cleanReport is the result of log clean, summed over all directories. Scripts depend on the JSON
// names.
type cleanReport struct {
	DryRun bool `json:"dry_run"`
	Passes int  `json:"passes"`
	// SegmentsTotal is the number of segments before the first pass, without active segments.
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
		Short: "Clean the directories of partitions without a broker",
		Long: `Clean the directories of partitions (TOPIC-NUMBER) without a broker. Logs of Apache Kafka work as
well.

The command keeps the latest record of each key. The last segment is active and is not cleaned. All
earlier segments are cleaned; if the checkpoints in the parent directory contain the partition's
high watermark, only segments below it are cleaned. The command updates these checkpoints, so that a
broker continues from its result. It fails if a broker has locked the directory. It may be
interrupted at any time, also by kill -9, and run again.

Tombstones are removed as in a broker. A first pass removes all older records of a tombstone's key;
then the retention of the tombstone starts, and a pass after the retention removes the tombstone.
With --tombstone-retention 0s the first pass removes the tombstone too.

--dry-run reports what would be removed, and the maximum that would be read and written, without
rewriting segments. Like every pass it writes missing key sidecars, and like the start of a broker
it repairs files that a crash has left incomplete.`,
		Example: `  heartwood log clean --dry-run heartwood-data/broker-0/tickets-0
  heartwood log clean --memory 64Mi --io-rate 50Mi/s --json /var/lib/kafka/tickets-*`,
		Args: someArgs,
	}
	flags := cmd.Flags()
	flags.Var(quantity(&f.memory, sizeKind, "128Mi"), "memory",
		"maximum memory of the cleaner")
	flags.IntVar(&f.Workers, "workers", 1, "number of goroutines that find superseded records")
	flags.Var(percentFlag{&f.dirty}, "min-dirty-percent",
		"dirty ratio above which a partition is cleaned; 0: always")
	flags.Var(percentFlag{&f.garbage}, "max-garbage-percent",
		"maximum share of garbage in the clean section after a pass; more saves I/O")
	flags.DurationVar(&f.MinLag, "min-lag", 0,
		"minimum age of records; segments with younger records are not cleaned")
	flags.DurationVar(&f.TombstoneRetention, "tombstone-retention", 24*time.Hour,
		"time that a tombstone is kept after all older records of its key were removed")
	flags.StringVar(&f.now, "now", "",
		"`TIME` take this as the current time: RFC 3339 or milliseconds since 1970 (default: the clock)")
	flags.Var(quantity(&f.ioRate, rateKind, "0"), "io-rate",
		"maximum bytes read and written per second; 0: no limit")
	flags.Var(quantity(&f.segment, sizeKind, "0"), "segment-size",
		"maximum size of new segments; 0: the size of the largest existing segment")
	flags.BoolVar(&f.DryRun, "dry-run", false,
		"report what would be removed, without rewriting anything")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	quiet := addQuiet(cmd)
	cmd.RunE = func(cmd *cobra.Command, dirs []string) error {
		if err := f.resolve(); err != nil {
			return usage.Misused(cmd, err)
		}
		logger := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(),
			&slog.HandlerOptions{Level: slog.LevelWarn}))
		end := showProgress(cmd, *quiet, "directories", int64(len(dirs)), &f.done)
		report, err := cleanAll(cmd.Context(), dirs, &f, logger)
		end()
		if printed := report.print(cmd.OutOrStdout(), f.asJSON); err == nil {
			err = printed
		}
		return err
	}
	return cmd
}

// resolve validates the flags and sets the fields of OfflineOptions.
func (f *cleanFlags) resolve() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
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
		"invalid argument for --io-rate: give at least 1Ki/s, or 0")
	check(f.segment == 0 || f.segment >= 1024 && f.segment < 1<<31,
		"invalid argument for --segment-size: give 1Ki to 2Gi-1")
	if f.now != "" {
		now, err := parseTime(f.now)
		check(
			err == nil,
			"invalid argument %q for --now: give a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970",
			f.now,
		)
		f.moment = now
	}
	f.MemoryBytes, f.IOBytesRate, f.SegmentBytes = int64(f.memory), int64(f.ioRate),
		int64(f.segment)
	f.MinDirtyPercent, f.MaxGarbagePercent = f.dirty*100, int(f.garbage*100)
	return errors.Join(faults...)
}

// parseTime parses a time in RFC 3339 format or in milliseconds since 1970.
func parseTime(text string) (time.Time, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	return time.Parse(time.RFC3339, text)
}

// cleanAll cleans one directory after the other. If a directory fails, cleanAll continues with the
// next one.
func cleanAll(ctx context.Context, dirs []string, f *cleanFlags,
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
		f.done.Add(1)
	}
	report.WallSeconds, report.CPUSeconds = time.Since(began).Seconds(), cpuSeconds()-cpu
	return report, errors.Join(failed...)
}

func cleanOne(ctx context.Context, dir string, f *cleanFlags,
	logger *slog.Logger) (cleaned cleaner.OfflineResult, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return cleaned, err
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		return cleaned, err
	case !info.IsDir():
		return cleaned, fmt.Errorf("%s is not a directory", dir)
	}
	o, err := logstore.OpenOffline(logstore.Options{FS: vfs.OS{}, Logger: logger}, dir, f.moment)
	if errors.Is(err, vfs.ErrLocked) {
		return cleaned, fmt.Errorf(
			"%w: a broker uses the directory; stop it, or use heartwood clean",
			err,
		)
	}
	if err != nil {
		return cleaned, err
	}
	cleaned, err = cleaner.CleanOffline(ctx, o, f.OfflineOptions)
	return cleaned, errors.Join(err, o.Close())
}

// cpuSeconds returns the user and system time of the process.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// add adds the result of one directory to the report.
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
		`%s: %d bytes reclaimed, %d of %d records removed (%d tombstones), in %d passes
segments: %d rewritten, %d untouched
log: %d bytes read, %d written; sidecars: %d read, %d written
memory: %d bytes at most; CPU: %.2f s; time: %.2f s
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
