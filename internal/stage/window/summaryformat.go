package window

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/embedd/embedd/model/moments"
)

// The wire form of a summary, which docs/summary-format.md describes for other languages.

const (
	summaryMagic   = "embedds\n"
	summaryVersion = 2
	// drawnVersion did not say which rows are held out
	drawnVersion = 1
	// heldOutBit is set in the class of a row that is held out
	heldOutBit = 1 << 31
	// rowHead is the size of a row besides its features: sequence number, time, row and class.
	rowHead = 8 + 8 + 4 + 4
)

// head is the header of a summary.
type head struct {
	Created  int64      `json:"created"`
	First    uint64     `json:"first"`
	Last     uint64     `json:"last"`
	Settings string     `json:"settings"`
	Features []string   `json:"features"`
	Labelled bool       `json:"labelled"`
	Labels   []string   `json:"labels"`  // of all rows, sorted
	Classes  []string   `json:"classes"` // of the sums, among Labels
	Summed   []int      `json:"beside"`
	Rows     int        `json:"rows"`  // of the sample
	Width    int        `json:"width"` // bytes per feature
	Read     ReadCounts `json:"read"`
	Absent   []int      `json:"absent,omitempty"` // features without a value in the sums
}

// Bytes is the wire form. Equal summaries have equal bytes.
func (s *Summary) Bytes() ([]byte, error) {
	h := head{Created: s.Created, First: s.First, Last: s.Last, Settings: s.Settings, Features: s.Features,
		Labelled: s.Labelled, Labels: slices.Clone(s.Classes), Classes: s.Classes, Summed: s.Summed, Rows: len(s.Rows),
		Width: 4, Read: s.Read, Absent: s.Absent}
	for i := range s.Rows {
		h.Labels = append(h.Labels, s.Rows[i].Label)
		if slices.ContainsFunc(s.Rows[i].X, func(v float64) bool { return float64(float32(v)) != v && !math.IsNaN(v) }) {
			h.Width = 8
		}
	}
	slices.Sort(h.Labels)
	h.Labels = slices.Compact(h.Labels)
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	b := []byte(summaryMagic)
	b = binary.LittleEndian.AppendUint32(b, summaryVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = append(b, text...)
	for i := range s.Rows {
		r := &s.Rows[i]
		class, _ := slices.BinarySearch(h.Labels, r.Label)
		if r.isHeldOut {
			class |= heldOutBit
		}
		b = binary.LittleEndian.AppendUint64(b, r.Seq)
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Time))
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Row))
		b = binary.LittleEndian.AppendUint32(b, uint32(class))
		for _, v := range r.X {
			if h.Width == 4 {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
			} else {
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
			}
		}
	}
	if b, err = s.Moments.AppendBinary(b); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

var errDamaged = errors.New("the summary is damaged")

// ReadSummary reads the wire form. It allocates no more memory than the size of b justifies (Invariant 6).
func ReadSummary(b []byte) (*Summary, error) {
	if len(b) < len(summaryMagic)+8+sha256.Size || string(b[:len(summaryMagic)]) != summaryMagic {
		return nil, fmt.Errorf("%w: it does not begin with the magic bytes", errDamaged)
	}
	body := b[:len(b)-sha256.Size]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], b[len(body):]) {
		return nil, fmt.Errorf("%w: its digest does not match", errDamaged)
	}
	body = body[len(summaryMagic):]
	version := binary.LittleEndian.Uint32(body)
	if version != summaryVersion && version != drawnVersion {
		return nil, fmt.Errorf("the summary is of version %d and this embedd reads %d and %d; run one version on all "+
			"replicas", version, drawnVersion, summaryVersion)
	}
	n := binary.LittleEndian.Uint32(body[4:])
	if body = body[8:]; uint64(n) > uint64(len(body)) {
		return nil, fmt.Errorf("%w: its header ends too late", errDamaged)
	}
	h := head{}
	if err := json.Unmarshal(body[:n], &h); err != nil {
		return nil, fmt.Errorf("%w: its header: %w", errDamaged, err)
	}
	return h.readBody(body[n:], version == drawnVersion)
}

// isAscending reports whether labels are sorted and distinct.
func isAscending(labels []string) bool {
	return slices.IsSorted(labels) && len(slices.Compact(slices.Clone(labels))) == len(labels)
}

// isFeatureSet reports whether numbers of m features ascend.
func isFeatureSet(features []int, m int) bool {
	for i, j := range features {
		if j < 0 || j >= m || i > 0 && j <= features[i-1] {
			return false
		}
	}
	return true
}

// maxRows is the maximum number of rows of a summary, so that sums of these numbers do not overflow.
const maxRows = 1 << 32

// isValid reports whether all counts are within bounds.
func (r *ReadCounts) isValid() bool {
	return min(r.Rows, r.Unlabelled, r.Faulty, r.Outliers, r.OverClassLimit, r.Unread) >= 0 &&
		int64(max(r.Rows, r.Unlabelled, r.Faulty, r.Outliers, r.OverClassLimit, r.Unread)) <= maxRows
}

// readBody reads what follows the header. isDrawn is that of the summary.
func (h *head) readBody(b []byte, isDrawn bool) (*Summary, error) {
	m := len(h.Features)
	if m < 1 || h.Rows < 0 || h.Width != 4 && h.Width != 8 || h.Rows > len(b)/(rowHead+m*h.Width) ||
		len(h.Summed) != len(h.Classes) || !isAscending(h.Labels) || !isAscending(h.Classes) ||
		!isFeatureSet(h.Absent, m) || h.First > h.Last || !h.Read.isValid() || h.Rows > h.Read.Rows {
		return nil, fmt.Errorf("%w: its header contradicts itself", errDamaged)
	}
	rest := h.Read.Rows - h.Rows
	for _, n := range h.Summed {
		if rest -= n; n < 0 || rest < 0 {
			return nil, fmt.Errorf("%w: it is of more rows than were read", errDamaged)
		}
	}
	s := &Summary{Range: Range{h.Created, h.First, h.Last}, Settings: h.Settings, Features: h.Features,
		Labelled: h.Labelled, Classes: h.Classes, Summed: h.Summed, Read: h.Read, Moments: &moments.Set{}, Absent: h.Absent,
		Rows: make([]Row, h.Rows), isDrawn: isDrawn}
	b, err := h.readRows(s, b)
	if err != nil {
		return nil, err
	}
	if err := s.Moments.UnmarshalBinary(b); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err := h.checkMoments(s); err != nil {
		return nil, err
	}
	return s, nil
}

// readRows reads the sample of a summary, and returns what follows it.
func (h *head) readRows(s *Summary, b []byte) (rest []byte, err error) {
	perMessage := h.Read.Rows / int(min(h.Last-h.First, maxRows)+1)
	carried := map[string]bool{}
	for i := range s.Rows {
		r := &s.Rows[i]
		r.Position = Position{Created: h.Created, Seq: binary.LittleEndian.Uint64(b),
			Row: int(binary.LittleEndian.Uint32(b[16:]))}
		r.Time = int64(binary.LittleEndian.Uint64(b[8:]))
		r.MessageRows = perMessage
		class := binary.LittleEndian.Uint32(b[20:])
		if !s.isDrawn {
			r.isHeldOut, class = class&heldOutBit != 0, class&^heldOutBit
		}
		if uint64(class) >= uint64(len(h.Labels)) || r.Seq < h.First || r.Seq > h.Last ||
			i > 0 && r.Compare(s.Rows[i-1].Position) <= 0 {
			return nil, fmt.Errorf("%w: row %d has an impossible position", errDamaged, i)
		}
		r.Label = h.Labels[class]
		carried[r.Label] = true
		b = b[rowHead:]
		r.X = make([]float64, len(h.Features))
		for j := range r.X {
			if h.Width == 4 {
				r.X[j] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*j:])))
			} else {
				r.X[j] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*j:]))
			}
			if math.Abs(r.X[j]) > Enormous { // NaN is a missing feature
				return nil, fmt.Errorf("%w: feature %d of row %d of it is %g", errDamaged, j, i, r.X[j])
			}
		}
		b = b[len(r.X)*h.Width:]
	}
	for _, class := range h.Classes {
		if !carried[class] {
			return nil, fmt.Errorf("%w: it has sums but no row of class %q", errDamaged, class)
		}
	}
	return b, nil
}

// checkMoments refuses moments of other rows than the header says.
func (h *head) checkMoments(s *Summary) error {
	if s.Moments.M() != len(h.Features) || s.Moments.PerClass() || s.Moments.Classes() > len(h.Classes) ||
		!s.Labelled && (s.Moments.Classes() > 0 || len(h.Classes) > 1) {
		return fmt.Errorf("%w: its moments are of other rows", errDamaged)
	}
	if err := s.Moments.CheckMagnitude(Enormous); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	for _, j := range h.Absent {
		if !s.Moments.IsZero(j) {
			return fmt.Errorf("%w: its moments have a feature that no row has", errDamaged)
		}
	}
	for slot := -1; slot < len(h.Classes); slot++ {
		rows := 0
		switch {
		case s.Labelled && slot >= 0:
			rows = h.Summed[slot]
		case !s.Labelled && slot < 0 && len(h.Summed) > 0:
			rows = h.Summed[0]
		}
		if s.Moments.Count(slot) > float64(rows) {
			return fmt.Errorf("%w: its moments are of more rows than its header gives", errDamaged)
		}
	}
	return nil
}
