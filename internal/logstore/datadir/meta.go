package datadir

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
)

// Small files that describe a data directory or the directory of a partition.
// docs/internals/format/store.md specifies each file.
const (
	LockFile          = ".lock"
	MetaFile          = "meta.properties"
	CleanShutdownFile = ".kafka_cleanshutdown"
	PartitionFile     = "partition.metadata"
	PolicyFile        = "reclaim.policy"
	RetainedFile      = "retained"
)

// Parts of the names of directories.
const (
	DeleteSuffix   = "-delete"   // suffix for a released partition's directory that is being deleted
	RetainedSuffix = "-retained" // suffix for a released partition's directory that is kept
	nameBytesMax   = 255         // maximum length of a file name on every common filesystem
	// LostAndFound is the directory at the root of every ext4 volume. The store ignores it without
	// a warning.
	LostAndFound = "lost+found"
)

// ErrMalformed is wrapped by every error about the content of a file that describes a directory.
var ErrMalformed = errors.New("malformed metadata file")

// String returns the id in Kafka's format: URL-safe base64 without padding.
func (t TopicID) String() string { return base64.RawURLEncoding.EncodeToString(t[:]) }

// parseID is the inverse of TopicID.String; it fails with ErrMalformed.
func parseID(text string) (id TopicID, err error) {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(decoded) != len(id) {
		return id, fmt.Errorf("%w: id %q", ErrMalformed, text)
	}
	return TopicID(decoded), nil
}

// NewID returns a random id (UUID version 4). Like Kafka, it never returns an id that begins with a
// dash, because tools would read such an id as a flag.
func NewID() TopicID {
	for {
		var id TopicID
		_, _ = rand.Read(id[:]) // this never fails: crypto/rand ends the process instead
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if !strings.HasPrefix(id.String(), "-") {
			return id
		}
	}
}

// ParsePartition parses the name of a partition's directory. The index begins after the last dash,
// because topics may contain dashes too.
//
// A name with characters that Kafka does not allow in topic names is not a partition. Otherwise a
// directory that somebody copied into the data directory, such as "my backup-1", would be listed in
// the checkpoint files. The fields of these files are separated by spaces, so the next start could
// not read the files at all.
func ParsePartition(name string) (id checkpoint.PartitionID, ok bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 || strings.ContainsFunc(name, func(r rune) bool { return !legalInTopic(r) }) {
		return id, false
	}
	index, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || index < 0 || name[dash+1:] != strconv.FormatInt(index, 10) {
		return id, false
	}
	return checkpoint.PartitionID{Topic: name[:dash], Index: int32(index)}, true
}

// legalInTopic reports whether Kafka allows a character in topic names.
func legalInTopic(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' ||
		r == '_' || r == '-'
}

// ReleasedName returns the name of a released partition's directory: <partition>.<32 hex
// digits><suffix>. A partition name that would be too long for the filesystem is truncated; no code
// parses the name.
func ReleasedName(id checkpoint.PartitionID, tag TopicID, suffix string) string {
	tail := "." + hex.EncodeToString(tag[:]) + suffix
	name := id.String()
	return name[:min(len(name), nameBytesMax-len(tail))] + tail
}

// fields parses lines of the form "key<separator>value". It keeps unknown keys, because a later
// version may have written them.
func fields(content []byte, separator string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if key, value, ok := strings.Cut(line, separator); ok && !strings.HasPrefix(line, "#") {
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return values
}

// LoadMeta reads the directory id from meta.properties, or creates the file with a new id. It also
// returns the content of the file. It keeps other properties, such as a Kafka broker's, because a
// Kafka broker must be able to use the directory again. An unknown version, a malformed id, and a
// directory of Heartwood without an id are errors, because a new id would make the disk look like a
// different disk.
func LoadMeta(fsys vfs.FS, dir string, logger *slog.Logger) (id TopicID, content []byte,
	err error) {
	stored, err := fsys.ReadFile(filepath.Join(dir, MetaFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return TopicID{}, nil, fmt.Errorf("read %s: %w", MetaFile, err)
	}
	content, err = checkSeal(stored)
	if errors.Is(err, errFlipped) {
		logger.Warn("flipped bit in a file of the data directory corrected", "file", MetaFile)
		err = nil
	}
	if err == nil {
		id, content, err = completeMeta(content, usedByHeartwood(fsys, dir))
	}
	if err != nil {
		return TopicID{}, nil, fmt.Errorf("read %s: %w; the id of this directory is in the "+
			"registration of the broker (annotation of its Lease, field directory): stop the broker, "+
			"and write the lines version=1 and directory.id=ID to the file", MetaFile, err)
	}
	if bytes.Equal(content, stored) {
		return id, content, nil
	}
	return id, content, WriteMeta(fsys, dir, content)
}

// completeMeta returns the directory id in the content of meta.properties. It adds what is missing:
// the version, the id, and the seal.
func completeMeta(content []byte, used bool) (id TopicID, complete []byte, err error) {
	values := fields(content, "=")
	version, versioned := values["version"]
	text, hasID := values["directory.id"]
	switch {
	case versioned && version != "1":
		return id, nil, fmt.Errorf("%w: version %q, want 1", ErrMalformed, version)
	case hasID:
		id, err = parseID(text)
	case used:
		err = fmt.Errorf("%w: the directory.id is missing", ErrMalformed)
	default:
		id = NewID()
	}
	if err != nil {
		return id, nil, err
	}
	if matchesSeal(content) && versioned && hasID {
		return id, content, nil
	}
	if i := bytes.LastIndex(content, []byte("\n"+sealPrefix)); i >= 0 {
		content = content[:i+1] // an outdated seal
	}
	if len(content) > 0 && content[len(content)-1] != '\n' {
		content = append(content, '\n')
	}
	if !versioned {
		content = append(content, "version=1\n"...)
	}
	if !hasID {
		content = append(content, "directory.id="+id.String()+"\n"...)
	}
	return id, seal(content), nil
}

// clusterIDFile is a file that each broker of Heartwood writes once it knows its cluster. Neither
// Kafka nor `heartwood log clean` writes it.
const clusterIDFile = "cluster-id"

// usedByHeartwood reports whether a broker of Heartwood has used a data directory.
func usedByHeartwood(fsys vfs.FS, dir string) bool {
	_, err := fsys.Stat(filepath.Join(dir, clusterIDFile))
	return err == nil
}

// WriteMeta durably writes meta.properties.
func WriteMeta(fsys vfs.FS, dir string, content []byte) error {
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, MetaFile), content); err != nil {
		return fmt.Errorf("write %s: %w", MetaFile, err)
	}
	return nil
}

// WriteTopicID writes partition.metadata.
func WriteTopicID(fsys vfs.FS, dir string, topic TopicID) error {
	content := "version: 0\ntopic_id: " + topic.String() + "\n"
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, PartitionFile),
		[]byte(content)); err != nil {
		return fmt.Errorf("write %s: %w", PartitionFile, err)
	}
	return nil
}

// ReadTopicID reads partition.metadata. It returns the zero id if the file does not exist.
func ReadTopicID(fsys vfs.FS, dir string) (TopicID, error) {
	values, err := readFields(fsys, filepath.Join(dir, PartitionFile))
	if values == nil || err != nil {
		return TopicID{}, err
	}
	topic, err := parseID(values["topic_id"])
	if err != nil {
		return topic, fmt.Errorf("read %s: %w", PartitionFile, err)
	}
	return topic, nil
}

// WritePolicy writes reclaim.policy, which states what happens to the data when the topic is
// deleted.
func WritePolicy(fsys vfs.FS, dir string, retain bool) error {
	content := fmt.Sprintf("version: 0\nretain: %t\n", retain)
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, PolicyFile),
		[]byte(content)); err != nil {
		return fmt.Errorf("write %s: %w", PolicyFile, err)
	}
	return nil
}

// ReadPolicy reads reclaim.policy. If the file does not exist, the data is kept, because data that
// is kept can still be deleted later.
func ReadPolicy(fsys vfs.FS, dir string) (retain bool, err error) {
	values, err := readFields(fsys, filepath.Join(dir, PolicyFile))
	if err != nil {
		return true, err
	}
	return values["retain"] != "false", nil
}

// readFields reads a file of version 0 with lines of the form "key: value". It returns nil if the
// file does not exist.
func readFields(fsys vfs.FS, name string) (map[string]string, error) {
	content, err := fsys.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Base(name), err)
	}
	values := fields(content, ":")
	if values["version"] != "0" {
		return nil, fmt.Errorf("read %s: %w: version %q, want 0", filepath.Base(name), ErrMalformed,
			values["version"])
	}
	return values, nil
}

// ReleaseOf returns a function that reports whether a name belongs to a released directory of the
// given partition.
func ReleaseOf(id checkpoint.PartitionID) func(name string) bool {
	pattern := ReleasedName(id, TopicID{}, DeleteSuffix)
	prefix := pattern[:strings.LastIndexByte(pattern, '.')+1]
	return func(name string) bool {
		return len(name) == len(pattern) && strings.HasPrefix(name, prefix)
	}
}
