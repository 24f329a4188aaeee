package grpcgate

// Remembered returns of how many targets and methods a server's word is kept.
func (p *Patience) Remembered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.until)
}
