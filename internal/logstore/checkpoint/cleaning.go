package checkpoint

import (
	"fmt"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/clean"
)

// CleaningState is the content of a partition's line in tombstone-agreement-checkpoint. The zero
// value is not written, because a partition without a line decodes as the zero value.
type CleaningState struct {
	// TombstoneClean is this replica's tombstone-clean offset.
	TombstoneClean int64
	// Progress is the partition's replicated cleaning progress.
	Progress clean.CleaningProgress
}

// EncodeCleaning encodes tombstone-agreement-checkpoint, with one line per partition: "<topic>
// <partition> <tombstone-clean offset> [<below> <since ms>]...".
func EncodeCleaning(all map[PartitionID]CleaningState) []byte {
	var lines []string
	for _, id := range sortedIDs(all) {
		state := all[id]
		if state.TombstoneClean <= 0 && len(state.Progress) == 0 {
			continue
		}
		line := &strings.Builder{}
		fmt.Fprintf(line, "%s %d %d", id.Topic, id.Index, state.TombstoneClean)
		for _, s := range state.Progress {
			fmt.Fprintf(line, " %d %d", s.Below, s.SinceMs)
		}
		lines = append(lines, line.String())
	}
	return encodeLines(lines)
}

// DecodeCleaning decodes tombstone-agreement-checkpoint.
func DecodeCleaning(content []byte) (map[PartitionID]CleaningState, error) {
	lines, err := decodeLines(content)
	if err != nil {
		return nil, err
	}
	all := make(map[PartitionID]CleaningState, len(lines))
	for _, line := range lines {
		if len(line) < 3 || len(line)%2 == 0 || len(line) > 3+2*clean.ProgressStepsMax {
			return nil, fmt.Errorf("%w: %d fields in a line", ErrMalformed, len(line))
		}
		id, err := parsePartition(line[0], line[1])
		if err != nil {
			return nil, err
		}
		if all[id], err = parseProgress(line[2:]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// parseProgress parses the fields after the partition: the tombstone-clean offset, and pairs of an
// offset and a time. The caller has checked that the number of fields is odd.
func parseProgress(texts []string) (state CleaningState, err error) {
	numbers := make([]int64, len(texts))
	for i, text := range texts {
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil || numbers[i] < 0 {
			return state, fmt.Errorf("%w: %q is neither an offset nor a time", ErrMalformed, text)
		}
	}
	state.TombstoneClean = numbers[0]
	last := clean.ProgressStep{Below: 0, SinceMs: -1}
	for i := 1; i < len(numbers); i += 2 {
		step := clean.ProgressStep{Below: numbers[i], SinceMs: numbers[i+1]}
		if step.Below <= last.Below || step.SinceMs <= last.SinceMs {
			return state, fmt.Errorf("%w: steps do not ascend", ErrMalformed)
		}
		state.Progress, last = append(state.Progress, step), step
	}
	return state, nil
}
