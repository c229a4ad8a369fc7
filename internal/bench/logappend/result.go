package logappend

import (
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"time"
)

// Result is what was measured. Raw bytes are those of the records before any compression.
type Result struct {
	Codec       string `json:"codec"`
	Level       string `json:"level"` // "default" or a number; empty for a codec without levels
	Sent        string `json:"sent"`
	BatchBytes  int    `json:"batchBytes"`
	RecordBytes int    `json:"recordBytes"`
	Batches     int    `json:"batches"`
	Records     int    `json:"records"`

	RawBytes    int64   `json:"rawBytes"`
	StoredBytes int64   `json:"storedBytes"` // of the data files
	Ratio       float64 `json:"ratio"`       // raw / stored
	Append      Cost    `json:"append"`
	Read        Cost    `json:"read"`
}

// Cost is what one way took.
type Cost struct {
	WallSeconds float64 `json:"wallSeconds"`
	CPUSeconds  float64 `json:"cpuSeconds"` // of the process, user and system
	WallMBs     float64 `json:"wallMBs"`    // raw, 10^6 bytes a second of wall clock
	// raw, 10^6 bytes a second of processor: what a busy machine disturbs least
	CPUMBs          float64 `json:"cpuMBs"`
	RecordMicros    float64 `json:"recordMicros"` // processor, microseconds a record
	BatchAllocs     float64 `json:"batchAllocs"`
	BatchAllocBytes float64 `json:"batchAllocBytes"`
}

// set works out what follows from times and counts.
func (c *Cost) set(wall, cpu time.Duration, r *Result) {
	c.WallSeconds, c.CPUSeconds = wall.Seconds(), cpu.Seconds()
	c.WallMBs = rate(r.RawBytes, c.WallSeconds)
	c.CPUMBs = rate(r.RawBytes, c.CPUSeconds)
	c.RecordMicros = c.CPUSeconds * 1e6 / float64(r.Records)
}

// rate is MB a second; 0 where the time is too short to be measured.
func rate(bytes int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) / 1e6 / seconds
}

// Print writes the result for a person, or as one JSON object.
func (r *Result) Print(out io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(r)
	}
	codec := r.Codec
	if r.Level != "" {
		codec += " level " + r.Level
	}
	_, err := fmt.Fprintf(out, `sent as        %s
stored as      %s
records        %d of about %d bytes, in %d batches of %d bytes
raw            %.1f MB
stored         %.1f MB, ratio %.2f
`, r.Sent, codec, r.Records, r.RecordBytes, r.Batches, r.BatchBytes, float64(r.RawBytes)/1e6, float64(r.StoredBytes)/1e6, r.Ratio)
	for _, way := range []struct {
		name string
		cost *Cost
	}{{"append", &r.Append}, {"read", &r.Read}} {
		if err == nil {
			_, err = fmt.Fprintf(
				out,
				"%-6s         %.1f MB/s; %.2f s CPU: %.1f MB/s a processor, %.3f us a record; %.1f allocations, %.0f bytes a batch\n",
				way.name,
				way.cost.WallMBs,
				way.cost.CPUSeconds,
				way.cost.CPUMBs,
				way.cost.RecordMicros,
				way.cost.BatchAllocs,
				way.cost.BatchAllocBytes,
			)
		}
	}
	return err
}

// processTime is the processor time of the process so far, user and system.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
