package dev

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/manifest"
)

// absences returns the resources in earlier manifests that set does not contain.
func (c *cluster) absences(set *manifest.Set) (absent []absence) {
	read := map[string]bool{}
	for _, file := range set.Files() {
		read[absolute(file)] = true
	}
	add := func(resource, topic string) {
		file := c.sources[resource]
		absent = append(absent, absence{resource, topic, file, file != "" && read[file]})
	}
	cluster, _, topics := c.store.Manifests()
	if cluster != nil && set.Cluster == nil {
		add("LogCluster/"+cluster.Name, "")
	}
	for _, topic := range topics {
		if !slices.ContainsFunc(set.Topics, func(t *v1alpha1.Topic) bool {
			return t.KafkaName() == topic.KafkaName()
		}) {
			add("Topic/"+topic.Name, topic.KafkaName())
		}
	}
	for _, user := range c.store.Users() {
		if !slices.ContainsFunc(set.Users, func(u *v1alpha1.LogUser) bool {
			return u.Name == user.Name
		}) {
			add("LogUser/"+user.Name, "")
		}
	}
	return absent
}

// nextState returns the state that manifests and flags request. A resource that the manifests no
// longer contain remains until removals decides to remove it. If set is nil, the cluster runs
// without manifests, and all resources remain.
func (c *cluster) nextState(set *manifest.Set, now time.Time) (state, error) {
	c.removalIn = 0
	if set == nil {
		return storedState(c.opts, c.store), nil
	}
	absent := c.absences(set)
	if err := c.updateSources(c.sources.next(set, absent)); err != nil {
		return state{}, err
	}
	due, wait := c.removals.step(now, absent)
	c.removalIn = wait
	c.kept = slices.DeleteFunc(absent, func(a absence) bool { return due[a.resource] })
	return newState(set, c.opts, c.store, c.kept), nil
}

// keepUnread keeps all resources when the manifests cannot be read. It lets admin clients change
// and delete topics whose file is missing or faulty, so that a topic whose file is lost can still
// be deleted.
func (c *cluster) keepUnread(fault error) error {
	c.removals, c.removalIn, c.kept = removals{}, 0, nil
	faulty := map[string]bool{}
	for _, one := range faults(fault) {
		var fault *manifest.Error
		if errors.As(one, &fault) {
			faulty[absolute(fault.File)] = true
		}
	}
	var topics []string
	for _, a := range c.absences(&manifest.Set{}) {
		if _, err := os.Stat(a.file); a.file == "" || err == nil && !faulty[a.file] {
			continue
		}
		c.kept = append(c.kept, a)
		if a.topic != "" {
			topics = append(topics, a.topic)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	return c.store.Keep(topics)
}

// keptText returns a text that identifies the kept resources, or "" if there are none.
func (c *cluster) keptText() string {
	var text strings.Builder
	for _, a := range c.kept {
		fmt.Fprintln(&text, a.resource, a.file, a.read)
	}
	return text.String()
}

// warnKept logs the kept resources by file, and how to remove them.
func (c *cluster) warnKept() {
	groups := map[string][]absence{}
	for _, a := range c.kept {
		key := fmt.Sprintln(a.file, a.read)
		groups[key] = append(groups[key], a)
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		c.warnKeptOf(groups[key])
	}
}

// warnKeptOf logs the kept resources from one file.
func (c *cluster) warnKeptOf(kept []absence) {
	file := kept[0].file
	remove := "write the file without them"
	var resources []string
	for _, a := range kept {
		resources = append(resources, a.resource)
		if a.topic != "" && len(resources) == 1 {
			remove = fmt.Sprintf("kafka-topics.sh --bootstrap-server %s --delete --topic %s; or %s",
				c.firstBootstrap(), a.topic, remove)
		}
	}
	if kept[0].read {
		c.opts.Logger.Warn("manifest does not contain resources any more; they are about to be removed",
			"file", file, "resources", strings.Join(resources, ","), "after", removalDelay)
		return
	}
	c.opts.Logger.Warn("manifest was not read; its resources stay as they are", "file",
		cmp.Or(file, "unknown"), "reason", whyUnread(file), "resources",
		strings.Join(resources, ","), "remove", remove)
}

// firstBootstrap returns the bootstrap address for clients of the first listener.
func (c *cluster) firstBootstrap() string {
	addresses := c.bootstrap(c.initial.listeners()[0].Name)
	if len(addresses) == 0 {
		return c.listen.String()
	}
	return addresses[0]
}

// whyUnread returns the reason why a file was not read.
func whyUnread(file string) string {
	if file == "" {
		return "the data directory does not state which file it is"
	}
	if _, err := os.Stat(file); err != nil {
		return err.Error()
	}
	return "it has errors, or is not given with -f"
}
