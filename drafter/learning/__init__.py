"""What a drafter learns on the device from the text that its target verified. Numpy only; torch is not needed."""
