package logappend

import (
	"encoding/json"
	"fmt"
	"io"
	"syscall"
	"time"
)

// Result is the outcome of a measurement. Raw bytes are the size of the records before compression.
type Result struct {
	Codec       string `json:"codec"`
	Level       string `json:"level"` // "default" or a number; empty for a codec without levels
	Sent        string `json:"sent"`
	BatchBytes  int    `json:"batchBytes"`
	RecordBytes int    `json:"recordBytes"`
	Batches     int    `json:"batches"`
	Records     int    `json:"records"`

	RawBytes    int64   `json:"rawBytes"`
	StoredBytes int64   `json:"storedBytes"` // growth of the log's data files
	Ratio       float64 `json:"ratio"`       // raw / stored
	Append      Cost    `json:"append"`
	Read        Cost    `json:"read"`
}

// Cost is the cost of appending or of reading.
type Cost struct {
	WallSeconds float64 `json:"wallSeconds"`
	CPUSeconds  float64 `json:"cpuSeconds"` // user and system time of the process
	WallMBs     float64 `json:"wallMBs"`    // RawBytes per second of wall clock time, / 10^6
	// CPUMBs is the number of raw megabytes (10^6 bytes) per second of CPU time. Of all figures, it
	// depends least on other load on the machine.
	CPUMBs          float64 `json:"cpuMBs"`
	RecordMicros    float64 `json:"recordMicros"` // microseconds of CPU time per record
	BatchAllocs     float64 `json:"batchAllocs"`
	BatchAllocBytes float64 `json:"batchAllocBytes"`
}

// set sets the times and computes the rates.
func (c *Cost) set(wall, cpu time.Duration, r *Result) {
	c.WallSeconds, c.CPUSeconds = wall.Seconds(), cpu.Seconds()
	c.WallMBs = rate(r.RawBytes, c.WallSeconds)
	c.CPUMBs = rate(r.RawBytes, c.CPUSeconds)
	c.RecordMicros = c.CPUSeconds * 1e6 / float64(r.Records)
}

// rate returns megabytes per second, or 0 if the time is too short to be measured.
func rate(bytes int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) / 1e6 / seconds
}

// Print writes the result as text or as one JSON object.
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
`, r.Sent, codec, r.Records, r.RecordBytes, r.Batches, r.BatchBytes,
		float64(r.RawBytes)/1e6, float64(r.StoredBytes)/1e6, r.Ratio)
	for _, part := range []struct {
		name string
		cost *Cost
	}{{"append", &r.Append}, {"read", &r.Read}} {
		if err == nil {
			_, err = fmt.Fprintf(
				out,
				"%-6s         %.1f MB/s; %.2f s CPU: %.1f MB/s per CPU, %.3f us per record; "+
					"%.1f allocations, %.0f bytes per batch\n",
				part.name,
				part.cost.WallMBs,
				part.cost.CPUSeconds,
				part.cost.CPUMBs,
				part.cost.RecordMicros,
				part.cost.BatchAllocs,
				part.cost.BatchAllocBytes,
			)
		}
	}
	return err
}

// processTime returns the user and system time of the process so far.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
