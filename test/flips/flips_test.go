//go:build flips

package flips

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/traffic"
)

const manifest = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: demo}
spec:
  brokers: %d
  scrub: {interval: 8760h, rate: 1Gi, verifyReads: Always}
`

const topicManifest = `---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: %s}
spec:
  cluster: demo
  partitions: 3
  replicas: %d
  cleanupPolicy: %s
  segment: {size: 64Ki}
`

// number returns an environment variable, or its default.
func number(t *testing.T, name string, standard int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s=%s: want a number", name, text)
	}
	return n
}

// cluster is a development cluster in a process of its own.
type cluster struct {
	process.Setup
	running   *process.Process
	bootstrap []string
	topics    []topic
}

func newCluster(t *testing.T, brokers int) *cluster {
	t.Helper()
	c := &cluster{topics: []topic{
		{"entities", true, 400, ledger.New()},
		{"small", true, 4, ledger.New()}, // too small for key sidecars
		{"events", false, 200, ledger.New()}}}
	manifests := fmt.Sprintf(manifest, brokers)
	for _, to := range c.topics {
		policy := "Delete"
		if to.compacted {
			policy = "Compact"
		}
		manifests += fmt.Sprintf(topicManifest, to.name, brokers, policy)
	}
	c.Setup = process.NewSetup(t, brokers, manifests)
	c.start(t)
	return c
}

func (c *cluster) start(t *testing.T) {
	t.Helper()
	c.running = process.Start(t, c.Args()...)
	c.bootstrap, _ = c.running.Ready(t)
	go func() { // otherwise a process that prints much would block
		for range c.running.Lines {
		}
	}()
}

// dir returns the data directory of a broker.
func (c *cluster) dir(t *testing.T, broker int) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(c.DataDir, "*", "meta.properties"))
	if err != nil || len(dirs) <= broker {
		t.Fatalf("data directories: %v, %v", dirs, err)
	}
	return filepath.Dir(dirs[broker])
}

// scrub requests a scrub, waits for its end, and returns the reports of the brokers.
func (c *cluster) scrub(t *testing.T) (scrubs report.Scrubs) {
	t.Helper()
	p := process.Start(t, "scrub", "--wait", "--address", c.HTTP)
	go func() {
		for range p.Lines {
		}
	}()
	p.Wait(t)
	c.GetJSON(t, "/api/v1/scrub", &scrubs)
	return scrubs
}

// damageLeft returns the damage that the brokers know.
func damageLeft(scrubs report.Scrubs) (left []string) {
	for _, s := range scrubs.Scrubs {
		for _, d := range s.Damage {
			left = append(left, fmt.Sprintf("broker %d: %s at %d: %s", s.Broker, d.File, d.Position,
				d.Problem))
		}
	}
	return left
}

// TestFlipsOfOneReplica damages files of one broker after the other, under load. After each round,
// scrubs are requested until no broker reports damage. No wrong value reaches a client, no
// acknowledged record is lost, and the replicas are equal in the end.
func TestFlipsOfOneReplica(t *testing.T) {
	number0 := seed.New(t)
	random := rand.New(rand.NewPCG(number0, 0))
	flips, truncations := number(t, "FLIPS", 200), number(t, "TRUNCATIONS", 40)
	perRound := number(t, "PER_ROUND", 12)
	c := newCluster(t, 3)
	l := startLoad(t, c.bootstrap, c.topics, number0)
	await.Until(t, "segments at rest on each broker", func() bool {
		for broker := range 3 {
			if len(resting(t, c.dir(t, broker))) < 60 {
				return false
			}
		}
		return true
	})
	damaged := tally{}
	for round := 1; flips+truncations > 0; round++ {
		broker := random.IntN(3)
		stopped := round%8 == 0
		if stopped {
			l.stop()
			if code := c.running.Stop(t, syscall.SIGTERM); code != 0 {
				t.Fatalf("round %d: the process exited with code %d", round, code)
			}
		}
		files := resting(t, c.dir(t, broker))
		damageSome := func() {
			for n := 0; n < perRound && flips+truncations > 0; {
				truncate := random.IntN(flips+truncations) < truncations
				file := files[random.IntN(len(files))]
				if !damage(random, file, truncate) {
					continue
				}
				n++
				damaged[filepath.Ext(file)]++
				if truncate {
					truncations--
				} else {
					flips--
				}
			}
		}
		if stopped {
			damageSome()
		} else {
			l.whileNobodyReads(damageSome)
		}
		if stopped {
			c.start(t)
			l = startLoad(t, c.bootstrap, c.topics, number0+uint64(round))
		}
		var left []string
		await.For(t, func() string {
			if left = damageLeft(c.scrub(t)); len(left) > 0 {
				return fmt.Sprintf("round %d, broker %d (seed %d): not repaired:\n%s", round,
					broker, number0, strings.Join(left, "\n"))
			}
			return ""
		})
		if l.wrong.Load() > 0 {
			t.Fatalf("round %d (seed %d): wrong values were read", round, number0)
		}
		t.Logf("round %d: broker %d, stopped %v; %d values read; still %d flips, %d truncations",
			round, broker, stopped, l.read.Load(), flips, truncations)
	}
	l.stop()
	c.verify(t)
	if code := c.running.Stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("the process exited with code %d", code)
	}
	c.compare(t, 3)
	t.Logf("seed %d: damaged files: %v; no damage is left", number0, damaged)
}

// verify reads all topics and compares them with the ledgers.
func (c *cluster) verify(t *testing.T) {
	t.Helper()
	for _, to := range c.topics {
		verify := traffic.VerifyComplete
		if to.compacted {
			verify = traffic.VerifyCompacted
		}
		n, err := verify(process.WithDeadline(t), c.bootstrap, to.name, to.book)
		if err != nil {
			t.Errorf("%s: %v", to.name, err)
		}
		t.Logf("%s: %d records acknowledged, %d exist", to.name, to.book.Count(), n)
	}
}

// TestFlipsOfTheOnlyReplica damages data files of a cluster with one broker. Nothing wrong is
// served, and the report names each damaged data file.
func TestFlipsOfTheOnlyReplica(t *testing.T) {
	number0 := seed.New(t)
	random := rand.New(rand.NewPCG(number0, 1))
	c := newCluster(t, 1)
	l := startLoad(t, c.bootstrap, c.topics, number0)
	await.Until(t, "segments at rest", func() bool {
		return len(resting(t, c.dir(t, 0))) >= 60
	})
	damaged := map[string]bool{}
	files := resting(t, c.dir(t, 0))
	l.whileNobodyReads(func() {
		for len(damaged) < 10 {
			file := files[random.IntN(len(files))]
			// the records of a segment, behind the header of its first batch
			if strings.HasSuffix(file, ".log") && flipRecords(random, file) {
				damaged[strings.TrimPrefix(file, c.dir(t, 0)+"/")] = true
			}
		}
	})
	await.For(t, func() string {
		missing := map[string]bool{}
		for file := range damaged {
			if _, err := os.Stat(filepath.Join(c.dir(t, 0), file)); err == nil {
				missing[file] = true
			}
		}
		for _, d := range c.scrub(t).Scrubs[0].Damage {
			delete(missing, d.File)
		}
		if len(missing) > 0 {
			return fmt.Sprintf("not reported (seed %d): %v", number0, missing)
		}
		return ""
	})
	before := l.read.Load()
	await.Until(t, "further reads", func() bool { return l.read.Load() > before+1000 })
	l.stop()
	if l.wrong.Load() > 0 {
		t.Errorf("%d wrong values were read", l.wrong.Load())
	}
}

// flipRecords flips a bit of the first batch's records.
func flipRecords(random *rand.Rand, name string) bool {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	b := make([]byte, 1)
	position := 61 + random.Int64N(60)
	if _, err := file.ReadAt(b, position); err != nil {
		return false
	}
	b[0] ^= 1 << random.IntN(8)
	_, err = file.WriteAt(b, position)
	return err == nil
}
