package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/operator/rebalance"
	"heartwood.dev/heartwood/internal/placement/balance"
)

// movesMax is the maximum number of moves that a plan prints.
const movesMax = 20

// balanceFlags are the flags of commands that move replicas between brokers.
type balanceFlags struct {
	account account
	consent consent
}

func rebalanceCommand(f *flags) *cobra.Command {
	var b balanceFlags
	cancel := false
	cmd := &cobra.Command{
		Use:   "rebalance",
		Short: "Move replicas so that brokers are balanced; cancel the moves",
		Long: `Request one run of the operator that moves replicas until the brokers are balanced, whatever
spec.rebalance.policy of the LogCluster is.

The plan shows the moves by the sizes that the brokers report now. The operator computes its own
plan after each move, with the rates of producers too, so it may move other replicas, also if the
plan shows none.
'kubectl heartwood status' shows the progress. --cancel ends the run: moves that are less than half
done are taken back.`,
		Args: usage.NoArgs,
	}
	b.account.add(cmd)
	b.consent.add(cmd)
	cmd.Flags().BoolVar(&cancel, "cancel", false, "cancel the present run")
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		if cancel {
			return b.cancel(ctx, s, cluster)
		}
		steps, notes, err := b.steps(ctx, s, cluster, balance.Options{})
		if err != nil {
			return err
		}
		if len(steps) == 0 {
			steps = []string{balancedStep}
		}
		steps = append(append(steps, notes...), fmt.Sprintf("set annotation %s of LogCluster %s",
			v1alpha1.AnnotationRebalance, cluster.Name))
		if cluster.Paused() {
			steps = append(steps, pausedStep)
		}
		if confirmed, err := b.consent.confirm(s, steps...); !confirmed {
			return err
		}
		if err := annotate(ctx, s, cluster, v1alpha1.AnnotationRebalance, stamp()); err != nil {
			return err
		}
		return b.consent.done(s, steps, "LogCluster "+cluster.Name+": requested; kubectl heartwood "+
			"status shows the progress")
	})
	return cmd
}

// balancedStep is the only step of a plan without moves. The plan cannot consider producer rates,
// because only the operator measures them, over several minutes.
const balancedStep = "the sizes and the numbers of replicas are balanced; the operator also balances " +
	"the bytes per second of producers"

// cancel cancels the current rebalance run.
func (b *balanceFlags) cancel(ctx context.Context, s *session,
	cluster *v1alpha1.LogCluster) error {
	steps := []string{fmt.Sprintf("set annotation %s=%s of LogCluster %s: no move begins, and those "+
		"that are less than half done are taken back", v1alpha1.AnnotationRebalance,
		v1alpha1.RebalanceCancel, cluster.Name)}
	if cluster.Paused() {
		steps = append(steps, pausedStep)
	}
	if confirmed, err := b.consent.confirm(s, steps...); !confirmed {
		return err
	}
	if err := annotate(ctx, s, cluster, v1alpha1.AnnotationRebalance,
		v1alpha1.RebalanceCancel); err != nil {
		return err
	}
	return b.consent.done(s, steps, "LogCluster "+cluster.Name+": cancelled")
}

// steps returns the moves that balance the brokers, or that only drain them, and notes about
// brokers that did not respond.
func (b *balanceFlags) steps(ctx context.Context, s *session, cluster *v1alpha1.LogCluster,
	options balance.Options) (steps, notes []string, err error) {
	input, notes, err := b.input(ctx, s, cluster)
	if err != nil {
		return nil, nil, err
	}
	options.CapacityPercent = rebalance.CapacityPercent(cluster)
	plan := balance.New(input, options)
	for _, move := range plan.Moves[:min(movesMax, len(plan.Moves))] {
		p := &input.Partitions[move.Partition]
		what := fmt.Sprintf("copy the replica of %s/%d from broker %d to broker %d", p.Topic,
			p.Index, move.From, move.To)
		if !move.Copy {
			what = fmt.Sprintf("make broker %d the preferred leader of %s/%d in place of broker %d",
				move.To, p.Topic, p.Index, move.From)
		}
		steps = append(steps, what)
	}
	if more := len(plan.Moves) - len(steps); more > 0 {
		steps = append(steps, strconv.Itoa(more)+" further moves")
	}
	blocked := plan.Blocked
	if input.AnywayPercent > 0 && !options.DrainOnly {
		blocked = nil // the operator drains these brokers after the run anyway
	}
	if len(blocked) > 0 {
		p := &input.Partitions[blocked[0].Partition]
		return nil, nil, fmt.Errorf("partition %s/%d cannot leave broker %d: %s", p.Topic, p.Index,
			blocked[0].Broker, whyBlocked(blocked[0].Goal, options.CapacityPercent))
	}
	return steps, notes, nil
}

// whyBlocked returns why a replica cannot be moved off a broker, and what to do about it.
func whyBlocked(goal balance.Goal, percent int64) string {
	const anyway = ", or set the annotation " + v1alpha1.AnnotationDrainAnyway +
		"=true of the LogCluster before"
	switch goal {
	case balance.Racks:
		return "it would share a rack with another replica: add a broker in another rack" + anyway
	case balance.Capacity:
		return fmt.Sprintf("it would fill another disk to more than %d %%: add a broker or disk space",
			percent) + anyway
	default:
		return "every other broker has a replica of it, has an almost full volume, is cordoned or is " +
			"drained, too: add a broker, or lower spec.replicas of the Topic"
	}
}

func drainCommand(f *flags) *cobra.Command {
	var b balanceFlags
	undo := false
	cmd := &cobra.Command{
		Use:   "drain BROKER...",
		Short: "Move all replicas off brokers",
		Long: `Move all replicas off brokers: their ids are added to spec.drain of the LogCluster. Such brokers
get no new replicas either. Their pods and volumes stay. The brokers may be down.

The command refuses if replicas would have no place. Condition Drained of the LogCluster, which
'kubectl heartwood status' shows, reports the progress. --undo removes the ids from spec.drain;
replicas return with the next rebalance.`,
		Example: `  kubectl heartwood drain 2
  kubectl heartwood drain 2 --undo`,
		Args: someBrokers,
	}
	b.account.add(cmd)
	b.consent.add(cmd)
	cmd.Flags().BoolVar(&undo, "undo", false, "end the draining of the brokers")
	cmd.RunE = f.run(func(ctx context.Context, s *session, args []string) error {
		return b.change(ctx, s, args, undo, "spec.drain",
			func(spec *v1alpha1.LogClusterSpec) *[]int32 { return &spec.Drain })
	})
	return cmd
}

func cordonCommand(f *flags) *cobra.Command {
	var b balanceFlags
	undo := false
	cmd := &cobra.Command{
		Use:   "cordon BROKER...",
		Short: "Place no more replicas on brokers",
		Long: `Place no more replicas on brokers: their ids are added to spec.cordoned of the LogCluster.
Replicas that they hold stay; 'kubectl heartwood drain' moves them away.`,
		Args: someBrokers,
	}
	b.consent.add(cmd)
	cmd.Flags().BoolVar(&undo, "undo", false, "allow replicas on the brokers again")
	cmd.RunE = f.run(func(ctx context.Context, s *session, args []string) error {
		return b.change(ctx, s, args, undo, "spec.cordoned",
			func(spec *v1alpha1.LogClusterSpec) *[]int32 { return &spec.Cordoned })
	})
	return cmd
}

// someBrokers checks that there is at least one argument.
func someBrokers(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misused(cmd, "give the id of a BROKER")
	}
	return nil
}

// change adds brokers to a list in the spec, or removes them. The plan for spec.drain contains the
// moves.
func (b *balanceFlags) change(ctx context.Context, s *session, args []string, undo bool,
	field string, list func(*v1alpha1.LogClusterSpec) *[]int32) error {
	cluster, err := s.logCluster(ctx)
	if err != nil {
		return err
	}
	before := cluster.DeepCopy()
	ids := list(&cluster.Spec)
	for _, arg := range args {
		id, err := strconv.ParseUint(arg, 10, 31)
		if err != nil || int32(id) >= cluster.Spec.Brokers {
			return usage.New(fmt.Errorf("invalid argument %q: LogCluster %s has the brokers 0 to %d",
				arg, cluster.Name, cluster.Spec.Brokers-1))
		}
		*ids = slices.DeleteFunc(*ids, func(other int32) bool { return other == int32(id) })
		if !undo {
			*ids = append(*ids, int32(id))
		}
	}
	slices.Sort(*ids)
	steps := []string{fmt.Sprintf("set %s of LogCluster %s to %v", field, cluster.Name, *ids)}
	if field == "spec.drain" && !undo {
		moves, notes, err := b.steps(ctx, s, cluster, balance.Options{DrainOnly: true})
		if err != nil {
			return err
		}
		if steps = append(append(steps, moves...), notes...); cluster.Paused() {
			steps = append(steps, pausedStep)
		}
	}
	if confirmed, err := b.consent.confirm(s, steps...); !confirmed {
		return err
	}
	if err := s.api.Patch(ctx, cluster, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{}), client.FieldOwner("kubectl-heartwood")); err != nil {
		return errors.Join(errors.New("change LogCluster "+cluster.Name), err)
	}
	return b.consent.done(s, steps, "LogCluster "+cluster.Name+": changed; kubectl heartwood "+
		"status shows the progress")
}
