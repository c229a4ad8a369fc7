package inspect

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// recoveryFile is the name of the file that contains the recovery points of a data directory's
// partitions (docs/internals/format/checkpoints.md).
const recoveryFile = "recovery-point-offset-checkpoint"

// recoveryPoints are the recovery points of one data directory.
type recoveryPoints struct {
	dir       string
	positions map[string]int64 // by name of the partition's directory; nil if not read yet
}

// syncedBelow returns the offset below which a partition's index files must be complete: the
// partition's recovery point. A broker keeps the newest index entries in memory until a flush, so a
// running or killed broker has not written all of them. The next start rebuilds the index entries
// above the recovery point. If there is no recovery point, all entries must exist.
func (v *verifier) syncedBelow(partition string) (int64, error) {
	dir, name := filepath.Split(filepath.Clean(partition))
	if v.recovery.dir != dir || v.recovery.positions == nil {
		path := filepath.Join(dir, recoveryFile)
		content, ok, err := v.readSmall(path)
		if err != nil {
			return 0, err
		}
		v.recovery = recoveryPoints{dir: dir, positions: map[string]int64{}}
		if ok {
			if v.recovery.positions, err = parseRecoveryPoints(content); err != nil {
				v.find(path, 0, "%v", err)
				v.recovery.positions = map[string]int64{}
			}
		}
	}
	if point, known := v.recovery.positions[name]; known {
		return point, nil
	}
	return math.MaxInt64, nil
}

// parseRecoveryPoints decodes the content of recovery-point-offset-checkpoint. It fails with
// errCheckpoint if the content is malformed.
func parseRecoveryPoints(content []byte) (map[string]int64, error) {
	lines, err := checkpointLines(content)
	if err != nil {
		return nil, err
	}
	points := make(map[string]int64, len(lines))
	for _, line := range lines {
		fields := strings.Split(line, " ")
		if len(fields) != 3 {
			return nil, fmt.Errorf("%w: line %q", errCheckpoint, line)
		}
		point, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil || point < 0 {
			return nil, fmt.Errorf("%w: line %q", errCheckpoint, line)
		}
		points[fields[0]+"-"+fields[1]] = point
	}
	return points, nil
}

// checkpointLines returns the lines of a checkpoint file after the version and the number of lines.
// It fails with errCheckpoint if the content is malformed. An empty file is valid and has no lines:
// Apache Kafka creates the file empty, and writes it when there is a first line.
func checkpointLines(content []byte) ([]string, error) {
	if len(content) == 0 {
		return nil, nil
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if lines[0] != "0" || len(lines) < 2 || lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, fmt.Errorf("%w: want version 0 and the number of lines", errCheckpoint)
	}
	return lines[2:], nil
}

// findUnlessOpen reports that an index lacks an entry for a batch or segment that ends at the
// offset end. If the next start of the broker rebuilds the index, it prints a note instead of a
// problem.
func (v *verifier) findUnlessOpen(end int64, path string, position int64, format string,
	args ...any) {
	if end >= v.dir.synced {
		v.note(path, fmt.Sprintf(format, args...)+"; not synced yet, the next start rebuilds it")
		return
	}
	v.find(path, position, format, args...)
}
