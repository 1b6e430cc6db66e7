package explore

import (
	"fmt"
	"strings"

	"github.com/lockmesh/lockmesh/internal/vote"
)

var laneNames = [lanesPerConn]string{"refresh>", ">", "<refresh", "<"}

// describe returns a step as text. [explorer.parse] reads the first part; the message of a delivery
// is added in brackets.
func (x *explorer) describe(s *state, st Step) string {
	client := func() vote.NodeID { return x.names[x.node(int(st.a))] }
	voter := func() vote.NodeID { return x.names[st.b] }
	old := [...]string{"", " old"}[st.slot]
	side := func() vote.NodeID {
		if st.lane == clientSide {
			return client()
		}
		return voter()
	}
	switch st.kind {
	case stepDeliver, stepLate:
		verb := map[stepKind]string{stepDeliver: "deliver", stepLate: "late"}[st.kind]
		text := fmt.Sprintf("%s %s %s %s%s", verb, client(), laneNames[st.lane], voter(), old)
		if m := s.conns[st.a][st.b][st.slot].lanes[st.lane]; m != 0 {
			m, _ = x.words.pop(m)
			text += "  [" + brief(&x.words.messages[m]) + "]"
		}
		return text
	case stepAsk, stepAskLate, stepAnswer, stepAnswerLate:
		verb := map[stepKind]string{stepAsk: "ask", stepAskLate: "ask-late", stepAnswer: "answer", stepAnswerLate: "answer-late"}[st.kind]
		return fmt.Sprintf("%s %s %s", verb, x.names[st.a], voter())
	case stepLock:
		return fmt.Sprintf("lock %s %s", client(), keyNames[st.key])
	case stepTry:
		return fmt.Sprintf("try %s %s", client(), keyNames[st.key])
	case stepRelease:
		return fmt.Sprintf("release %s %s", client(), keyNames[st.key])
	case stepUpgrade:
		return fmt.Sprintf("upgrade %s %s", client(), keyNames[st.key])
	case stepShare:
		return fmt.Sprintf("share %s %s", client(), keyNames[st.key])
	case stepCalm:
		return "calm"
	case stepNoticeLate:
		return fmt.Sprintf("notice-late %s %s%s, %s doesn't know", client(), voter(), old, side())
	case stepLinkLate:
		return fmt.Sprintf("link-late %s %s", client(), voter())
	case stepBreak:
		return fmt.Sprintf("break %s %s%s, %s knows", client(), voter(), old, side())
	case stepNotice:
		return fmt.Sprintf("notice %s %s%s, %s knows", client(), voter(), old, side())
	case stepLink:
		return fmt.Sprintf("link %s %s", client(), voter())
	case stepCrash:
		return fmt.Sprintf("crash %s", x.names[st.a])
	case stepStart:
		return fmt.Sprintf("start %s", x.names[st.a])
	case stepTick:
		return "tick"
	}
	return "?"
}

// brief returns a message as text.
func brief(m *vote.Message) string {
	var b strings.Builder
	b.WriteString(m.Kind.String())
	if m.Number != 0 {
		fmt.Fprintf(&b, " #%d", m.Number)
	}
	if m.Serial != 0 {
		fmt.Fprintf(&b, " serial %d", m.Serial)
	}
	if m.Slot != 0 {
		fmt.Fprintf(&b, " slot %d", m.Slot)
	}
	if m.Token != 0 {
		fmt.Fprintf(&b, " token %d", m.Token)
	}
	if m.Won {
		b.WriteString(" won")
	}
	for _, e := range m.Entries {
		fmt.Fprintf(&b, " (#%d serial %d token %d)", e.Number, e.Serial, e.Token)
	}
	return b.String()
}

// parse finds the step described by a line among the steps allowed in a state. Text in brackets
// counts only for a lane that begins to run late, since it identifies the first late message.
func (x *explorer) parse(s *state, line string, among []Step) (Step, bool) {
	for _, st := range among {
		is, want := x.describe(s, st), strings.TrimSpace(line)
		if st.kind != stepLate {
			is, _, _ = strings.Cut(is, "  [")
			want, _, _ = strings.Cut(want, "  [")
		}
		if is == want {
			return st, true
		}
	}
	return Step{}, false
}
