"""Boolean masks: packed into bits, what they keep, and what is written where they are true."""
