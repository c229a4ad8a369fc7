package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/internal/console/kafka"
)

// offsetsPage is the form for changing a group's offsets. It shows the changes before they are
// made.
type offsetsPage struct {
	Group                    string
	Members                  int
	Topics                   []string // topics for which the group has offsets
	Topic, Partition, To, At string
	Targets                  []target
	Changes                  []changeRow
	PlanFault                string // reason why the changes cannot be planned
}

// target is an option in the form: a position to which offsets can be moved.
type target struct{ Name, Text string }

var targets = []target{{kafka.ToEarliest, "the start of the log"},
	{kafka.ToLatest, "the end of the log"}, {kafka.ToOffset, "an offset"},
	{kafka.ToTime, "a time (UTC)"}, {kafka.ToNothing, "nothing: delete the offsets"}}

// changeRow is a change, with a description of its effect.
type changeRow struct {
	kafka.Change
	Effect string
}

func changeRows(changes []kafka.Change) (rows []changeRow) {
	for _, change := range changes {
		row := changeRow{Change: change}
		switch {
		case change.After < 0:
			row.Effect = "consumers start where auto.offset.reset says"
		case change.Before < 0:
			row.Effect = "consumers start here"
		case change.After < change.Before:
			row.Effect = plural(change.Before-change.After, "offset") + " again"
		case change.After > change.Before:
			row.Effect = plural(change.After-change.Before, "offset") + " left out"
		default:
			row.Effect = "none"
		}
		if change.Cut {
			row.Effect += "; the offset is not in the log"
		}
		rows = append(rows, row)
	}
	return rows
}

// offsetsForm shows the changes that the request's parameters describe.
func (c *Console) offsetsForm(r *http.Request) (view, error) {
	q := valuesOf(r)
	client, group, err := c.groupOf(r, q.Get("group"))
	if err != nil {
		return view{}, err
	}
	page := offsetsPage{Group: group.Name, Members: len(group.Members), Topics: group.Topics(),
		Topic: q.Get("topic"), Partition: q.Get("partition"), To: q.Get("to"), At: q.Get("at"),
		Targets: targets}
	if page.To != "" {
		changes, err := planOf(r, client, group, q)
		if page.Changes = changeRows(changes); err != nil {
			page.PlanFault = err.Error()
		}
	}
	return view{Template: "offsets", Title: "Offsets of " + group.Name, Page: "groups",
		Body: page}, nil
}

// groupOf returns a group. If the group has neither members nor offsets, it may have been deleted
// in the meantime.
func (c *Console) groupOf(r *http.Request, name string) (*kafka.Client, *kafka.Group, error) {
	client, err := c.kafka()
	if err != nil {
		return nil, nil, err
	}
	found, _, err := client.Groups(r.Context(), name)
	if err != nil {
		return nil, nil, err
	}
	if name == "" || len(found) == 0 {
		return nil, nil, &fault{status: http.StatusNotFound,
			text: "There is no group with the name " + name + "."}
	}
	return client, &found[0], found[0].Err
}

// planOf returns the changes that the form describes.
func planOf(r *http.Request, client *kafka.Client, group *kafka.Group,
	q url.Values) ([]kafka.Change, error) {
	partition := int64(kafka.AnyPartition)
	if text := strings.TrimSpace(q.Get("partition")); text != "" {
		var err error
		if partition, err = strconv.ParseInt(text, 10, 32); err != nil || partition < 0 {
			return nil, badRequest("The partition " + text + " is not a number.")
		}
		if q.Get("topic") == "" {
			return nil, badRequest("To change one partition, choose its topic.")
		}
	}
	to, err := targetOf(q)
	if err != nil {
		return nil, err
	}
	return client.PlanOffsets(r.Context(), group, q.Get("topic"), int32(partition), to)
}

func targetOf(q url.Values) (to kafka.Target, err error) {
	position := strings.TrimSpace(q.Get("at"))
	switch to.Kind = q.Get("to"); to.Kind {
	case kafka.ToEarliest, kafka.ToLatest, kafka.ToNothing:
		return to, nil
	case kafka.ToOffset:
		to.Offset, err = strconv.ParseInt(strings.ReplaceAll(position, ",", ""), 10, 64)
		if err != nil || to.Offset < 0 {
			return to, badRequest("The offset " + position + " is not a number.")
		}
		return to, nil
	case kafka.ToTime:
		if to.Time, err = parseTime(position); err != nil {
			return to, badRequest("The time " + position +
				" is invalid: use the form 2026-01-31T23:59:59Z (UTC).")
		}
		return to, nil
	}
	return to, badRequest("Choose where the offsets are moved to.")
}

// hasMembers returns an error if the group has members, because they would overwrite changed
// offsets.
func hasMembers(group *kafka.Group) error {
	if len(group.Members) == 0 {
		return nil
	}
	return &fault{status: http.StatusConflict, text: "The group has " +
		plural(len(group.Members), "member") + ": stop its consumers first."}
}

// changeOffsets changes a group's offsets. It redirects to the group's page or, if it deleted the
// offsets, to the list of groups.
func (c *Console) changeOffsets(r *http.Request) (location string, err error) {
	client, group, err := c.groupOf(r, r.PostForm.Get("group"))
	if err == nil {
		err = hasMembers(group)
	}
	if err != nil {
		return "", err
	}
	changes, err := planOf(r, client, group, r.PostForm)
	if err != nil {
		return "", err
	}
	location = query("group", "name", group.Name)
	if r.PostForm.Get("to") == kafka.ToNothing {
		location = "groups" // a group without offsets may no longer exist
	}
	return location, client.ChangeOffsets(r.Context(), group.Name, changes)
}

func (c *Console) deleteGroupForm(r *http.Request) (view, error) {
	_, group, err := c.groupOf(r, valuesOf(r).Get("group"))
	if err != nil {
		return view{}, err
	}
	return view{Template: "deletegroup", Title: "Delete " + group.Name, Page: "groups",
		Body: group}, nil
}

// deleteGroup deletes a group, and redirects to the list of groups.
func (c *Console) deleteGroup(r *http.Request) (location string, err error) {
	client, group, err := c.groupOf(r, r.PostForm.Get("group"))
	if err == nil {
		err = hasMembers(group)
	}
	if err != nil {
		return "", err
	}
	return "groups", client.DeleteGroup(r.Context(), group.Name)
}
