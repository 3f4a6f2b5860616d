class EchoGuard:
    def sounded(self, pcm, at_ms):
        pass

    def flushed(self, now_ms):
        pass

    def share(self, window, now_ms, *, suspect):
        return 0.0

    def audible(self, now_ms):
        return False
